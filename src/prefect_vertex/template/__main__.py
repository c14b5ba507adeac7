"""`python -m prefect_vertex.template` prints the base job template, for work_pool_templates/."""

from __future__ import annotations

import sys

from prefect_vertex.template.pool import base_job_template_json

sys.stdout.write(base_job_template_json())
