"""The prefect-vertex command line."""

from prefect_vertex.cli.app import main

__all__ = ["main"]
