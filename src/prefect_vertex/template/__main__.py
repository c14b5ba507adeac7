"""`python -m prefect_vertex.template` prints a base job template, or writes all of them.

python -m prefect_vertex.template vertex-gpu
python -m prefect_vertex.template --write work_pool_templates
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from prefect_vertex.template.pool import POOL_TEMPLATES, base_job_template_json


def main() -> None:
    """Print one, or write the files."""
    parser = argparse.ArgumentParser(prog="python -m prefect_vertex.template")
    parser.add_argument("name", nargs="?", choices=POOL_TEMPLATES, default="vertex-forecast")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write all templates there")
    options = parser.parse_args()
    if options.write is None:
        sys.stdout.write(base_job_template_json(options.name))
        return
    for name in POOL_TEMPLATES:
        path = options.write / f"{name}.json"
        path.write_text(base_job_template_json(name), encoding="utf-8")


if __name__ == "__main__":
    main()
