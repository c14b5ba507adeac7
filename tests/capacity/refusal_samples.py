"""A sample of a refusal, and wordings of the service that more than one sample has.

Each sample's id ends in its source: D documented, O seen in a public report, R recorded by the
forecasting submitter, I inferred.
"""

from __future__ import annotations

from typing import Any

import pytest

from prefect_vertex.capacity.refusals import RefusalReason, When

AT_CREATE, BEFORE, AFTER = When.AT_CREATE, When.BEFORE_START, When.AFTER_START

STOCKOUT = (
    "Resources are insufficient in region: us-central1. Try a different region or use a different "
    "accelerator."
)
QUOTA = (
    "The following quota metrics exceed quota limits: "
    "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"
)
RATE = (
    "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute' of "
    "service 'logging.googleapis.com' for consumer 'project_number:664405099227'."
)
CONTAINER = (
    "The replica workerpool0-0 exited with a non-zero status of 1. Termination reason: Error. \n"
    "Traceback (most recent call last):\n  [...]\n{tail}\n\nTo find out more about why your job "
    "exited please check the logs: https://console.cloud.google.com/logs/viewer?project=1"
)
BUCKET = (
    "The Cloud Storage bucket of `gs://mine` is in location `us`. It must be in the same regional "
    "location as the service location `us-central1`."
)
IMAGE = (
    "Vertex AI Service Agent 'XXXXX@gcp-sa-aiplatform-cc.iam.gserviceaccount.com' should be "
    "granted access to the image gcr.io/p/flows:latest"
)
ACT_AS = "You do not have permission to act as service_account: X. (or it may not exist)."
PERMISSION = (
    "Permission 'aiplatform.customJobs.create' denied on resource "
    "'//aiplatform.googleapis.com/projects/P/locations/R' (or it may not exist)."
)
ATTACHMENT = (
    "The networkAttachments resource projects/p/regions/r/networkAttachments/a was not found."
)


def sample(name: str, reason: RefusalReason, text: str = "", **given: Any) -> Any:
    return pytest.param({"text": text, **given}, reason, id=name)
