"""One table says what a refusal means; its samples are the service's own words where known.

Here are those of refused creates; `test_refusals_of_jobs` has those of jobs that were accepted, and
`refusal_samples` says how an id names its source.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.capacity.refusal_samples import (
    ACT_AS,
    AT_CREATE,
    ATTACHMENT,
    BUCKET,
    PERMISSION,
    QUOTA,
    RATE,
    STOCKOUT,
    sample,
)

from prefect_vertex.capacity.refusals import RefusalReason, classify

REFUSED_CREATES = [
    # https://github.com/snarfed/bridgy-fed/issues/620, dumped with its ErrorInfo
    sample(
        "rate with its ErrorInfo-O",
        RefusalReason.RATE,
        RATE,
        error_reason="RATE_LIMIT_EXCEEDED",
        grpc_code="RESOURCE_EXHAUSTED",
    ),
    sample("rate by its words-O", RefusalReason.RATE, RATE, grpc_code="RESOURCE_EXHAUSTED"),
    # https://github.com/leancodepl/arb_translate/issues/7
    sample(
        "rate in one compound name-O",
        RefusalReason.RATE,
        "Quota exceeded for aiplatform.googleapis.com/"
        "generate_content_requests_per_minute_per_project_per_base_model with base model: x. "
        "Please submit a quota increase request.",
        grpc_code="RESOURCE_EXHAUSTED",
    ),
    # https://github.com/GoogleCloudPlatform/stable-diffusion-on-gcp/issues/12
    sample("quota-O", RefusalReason.QUOTA, QUOTA, grpc_code="RESOURCE_EXHAUSTED"),
    # https://github.com/GoogleCloudPlatform/vertex-ai-samples/issues/3479: a trailing comma
    sample(
        "quota, several metrics and a trailing comma-O",
        RefusalReason.QUOTA,
        "The following quota metrics exceed quota limits: aiplatform.googleapis.com/"
        "custom_model_training_cpus,aiplatform.googleapis.com/custom_model_training_tpu_v2,",
        grpc_code="RESOURCE_EXHAUSTED",
    ),
    # google/api/error_reason.proto
    sample(
        "quota by its ErrorInfo-D",
        RefusalReason.QUOTA,
        "no",
        error_reason="RESOURCE_QUOTA_EXCEEDED",
        grpc_code="RESOURCE_EXHAUSTED",
    ),
    # https://github.com/GoogleCloudPlatform/training-data-analyst/issues/2284
    sample(
        "quota failure of the older service-O",
        RefusalReason.QUOTA,
        "Quota failure for project p. The request for 2 K80 accelerators exceeds the allowed "
        "maximum of 0 A100, 0 K80 accelerators.",
        grpc_code="RESOURCE_EXHAUSTED",
    ),
    sample("stockout at once-D", RefusalReason.NO_ROOM, STOCKOUT, grpc_code="RESOURCE_EXHAUSTED"),
    sample(
        "exhausted, and nothing else-O",
        RefusalReason.NO_ROOM,
        "Resource has been exhausted (e.g. check quota).",
        grpc_code="RESOURCE_EXHAUSTED",
    ),
    sample(
        "too large for gRPC itself-O",
        RefusalReason.WRONG_REQUEST,
        "CLIENT: Sent message larger than max (5000000 vs. 4194304)",
        grpc_code="RESOURCE_EXHAUSTED",
    ),
    # PREFECT-GCP issue 175 and others of facts 1.6
    sample(
        "accelerator without count-O",
        RefusalReason.WRONG_REQUEST,
        "List of found errors:\t1.Field: job_spec.worker_pool_specs[0].machine_spec."
        "accelerator_type; Message: Both `accelerator_type` and `accelerator_count` should be "
        "specified or none.\t ",
        grpc_code="INVALID_ARGUMENT",
    ),
    # https://github.com/GoogleCloudPlatform/generative-ai/issues/151
    sample(
        "accelerators not for this project-O",
        RefusalReason.ACCESS,
        "List of found errors: 1.Field: job_spec.worker_pool_specs[0].machine_spec."
        "accelerator_count; Message: Accelerators are not supported for this project.",
        grpc_code="INVALID_ARGUMENT",
    ),
    # https://github.com/GoogleCloudPlatform/python-docs-samples/issues/13233
    sample(
        "wrong machine-O",
        RefusalReason.WRONG_REQUEST,
        'Accelerator "NVIDIA_TESLA_K80" is not supported for machine type "n1-standard-4"',
        grpc_code="INVALID_ARGUMENT",
    ),
    sample(
        "wrong count-O",
        RefusalReason.WRONG_REQUEST,
        'The accelerator count "8" is not allowed. The allowed numbers of accelerator "NVIDIA_L4" '
        'to use with machine type "g2-standard-8" are: [1].',
        grpc_code="INVALID_ARGUMENT",
    ),
    # Recorded 2026-09-04: no marker word in it, and tried six times
    sample(
        "a range-R",
        RefusalReason.WRONG_REQUEST,
        "max_replica_count must be in range [1, 10]",
        grpc_code="INVALID_ARGUMENT",
    ),
    # https://github.com/googleapis/python-aiplatform/issues/1073: not PERMISSION_DENIED
    sample("act as-O", RefusalReason.ACCESS, ACT_AS, grpc_code="INVALID_ARGUMENT"),
    sample(
        "permission-O",
        RefusalReason.ACCESS,
        PERMISSION,
        error_reason="IAM_PERMISSION_DENIED",
        grpc_code="PERMISSION_DENIED",
    ),
    sample(
        "wrong project-O",
        RefusalReason.ACCESS,
        "Permission denied on resource project X.",
        error_reason="CONSUMER_INVALID",
        grpc_code="PERMISSION_DENIED",
    ),
    sample("no answer about who it is-D", RefusalReason.ACCESS, grpc_code="UNAUTHENTICATED"),
    # https://github.com/googleapis/python-aiplatform/issues/885
    sample("bucket elsewhere-O", RefusalReason.NOT_HERE, BUCKET, grpc_code="FAILED_PRECONDITION"),
    sample("attachment as text-R", RefusalReason.NOT_HERE, ATTACHMENT),
    sample("attachment by its code-R", RefusalReason.NOT_HERE, ATTACHMENT, grpc_code="NOT_FOUND"),
    sample(
        "policy about places-D",
        RefusalReason.NOT_HERE,
        error_reason="LOCATION_ORG_POLICY_VIOLATED",
        grpc_code="PERMISSION_DENIED",
    ),
    # https://cloud.google.com/vertex-ai/docs/general/vpc-peering
    sample(
        "another network-D",
        RefusalReason.NETWORK,
        "You can't perform serverless training on a new network while you are still performing "
        "serverless training on another network",
        grpc_code="FAILED_PRECONDITION",
    ),
    sample(
        "no addresses left-O",
        RefusalReason.NETWORK,
        "Couldn't find free blocks in allocated IP ranges. Please allocate new ranges for this "
        "service provider.",
        grpc_code="FAILED_PRECONDITION",
    ),
    sample(
        "quota with the advice of a stockout-I",
        RefusalReason.QUOTA,
        f"{QUOTA}. Try a different region.",
        grpc_code="RESOURCE_EXHAUSTED",
    ),
    sample(
        "advice, and nothing else-I",
        RefusalReason.NO_ROOM,
        "Please try another zone.",
        grpc_code="UNAVAILABLE",
    ),
    sample(
        "rate of creations, without its ErrorInfo-I",
        RefusalReason.RATE,
        "Quota exceeded for quota metric 'Custom job creation' and limit 'Custom job creation per "
        "minute' of service 'aiplatform.googleapis.com' for consumer 'project_number:1'.",
        grpc_code="RESOURCE_EXHAUSTED",
    ),
    sample(
        "billing as a precondition-I",
        RefusalReason.ACCESS,
        "Billing must be enabled for activation of service '[aiplatform.googleapis.com]'.",
        grpc_code="FAILED_PRECONDITION",
    ),
    sample(
        "an API that is off, as a precondition-I",
        RefusalReason.ACCESS,
        "Vertex AI API has not been used in project 42 before or it is disabled.",
        grpc_code="FAILED_PRECONDITION",
    ),
    *(
        sample(
            f"a stockout about {name!r}-I",
            RefusalReason.NO_ROOM,
            f"ZONE_RESOURCE_POOL_EXHAUSTED: The zone '{name}' has no room for its network "
            "interface.",
            grpc_code="RESOURCE_EXHAUSTED",
        )
        for name in ("projects/vpc-host/zones/us-central1-a", "projects/network-prod/zones/a")
    ),
    sample("no answer-D", RefusalReason.INTERNAL, grpc_code="DEADLINE_EXCEEDED"),
    sample("a call of ours that was cancelled-D", RefusalReason.INTERNAL, grpc_code="CANCELLED"),
    sample("unavailable-D", RefusalReason.INTERNAL, "try later", grpc_code="UNAVAILABLE"),
    sample(
        "not a location's host-I",
        RefusalReason.NOT_HERE,
        "Received http2 header with status: 404",
        grpc_code="UNIMPLEMENTED",
    ),
    sample(
        "no token-I",
        RefusalReason.ACCESS,
        "Could not create CustomJob in projects/p/locations/r: no access token: refused.",
    ),
]


@pytest.mark.parametrize(("given", "reason"), REFUSED_CREATES)
def test_a_refused_create_is_read_by_reason_code_and_words(
    given: dict[str, Any], reason: RefusalReason
) -> None:
    assert classify(when=AT_CREATE, **given).reason is reason
