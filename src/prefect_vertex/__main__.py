"""`python -m prefect_vertex`: the command line, where the console script is not on PATH."""

from __future__ import annotations

from prefect_vertex.cli import main

if __name__ == "__main__":
    main()
