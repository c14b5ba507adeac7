"""One table says what a refusal means; its samples are the service's own words where known.

Each sample's id ends in its source: D documented, O seen in a public report, R recorded by the
forecasting submitter, I inferred.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest

from prefect_vertex.capacity.reasons import SCOPE_OF
from prefect_vertex.capacity.refusals import RefusalReason, Scope, When, classify
from prefect_vertex.capacity.rows import TABLE
from prefect_vertex.lifecycle.diagnosis import diagnose
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.snapshot import JobError, JobSnapshot
from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.planning.naming import ResourceName

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

NEVER_STARTED = [
    # Recorded: accepted, and failed 20 minutes later; the number was never seen
    *(
        sample(f"stockout, code {code}-D", RefusalReason.NO_ROOM, STOCKOUT, job_code=code)
        for code in (None, 2, 3, 8, 13, 14)
    ),
    # https://github.com/GoogleCloudPlatform/vertex-ai-samples/issues/700
    sample(
        "quota-O",
        RefusalReason.QUOTA,
        "The following quota metrics exceed quota limits: "
        "aiplatform.googleapis.com/custom_model_training_nvidia_k80_gpus",
        job_code=8,
    ),
    sample(
        "quotas, plural and reordered-R",
        RefusalReason.QUOTA,
        "The following quotas are exceeded: CustomModelTrainingT4GPUsPerProjectPerRegion",
    ),
    # https://github.com/GoogleCloudPlatform/vertex-ai-samples/issues/3479, its title
    sample(
        "quota, wrapped, its status in the text-O",
        RefusalReason.QUOTA,
        "com.google.cloud.ai.platform.common.errors.AiPlatformException: code=RESOURCE_EXHAUSTED, "
        "message=The following quota metrics exceed quota limits: "
        "aiplatform.googleapis.com/custom_model_training_cpus, ",
    ),
    sample(
        "permission, wrapped-I",
        RefusalReason.ACCESS,
        "AiPlatformException: code=PERMISSION_DENIED, message=no",
    ),
    sample("internal-D", RefusalReason.INTERNAL, "Internal error occurred for the current attempt"),
    sample(
        "internal by its number-D",
        RefusalReason.INTERNAL,
        "Internal error occurred for the current attempt",
        job_code=13,
    ),
    # Recorded 2026-09-01: three stockouts that said nothing
    sample("internal, contentless-R", RefusalReason.INTERNAL, "An internal error occurred"),
    sample("unknown-R", RefusalReason.UNKNOWN, "Unexpected response."),
    sample("not a word-R", RefusalReason.UNKNOWN),
    sample(
        "zone pool-D",
        RefusalReason.NO_ROOM,
        "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS: the zone does not have it",
    ),
    # https://github.com/kestra-io/plugin-gcp/issues/698
    sample(
        "zone without resources-O",
        RefusalReason.NO_ROOM,
        "The zone 'projects/p/zones/europe-west4-b' does not have enough resources available to "
        "fulfill the request. Try a different zone, or try again later.",
    ),
    sample("cancelled-O", RefusalReason.CANCELLED, "CANCELED", job_code=1),
    sample("cancelled, by its word alone-I", RefusalReason.CANCELLED, "CANCELED"),
    sample("the wait was over-I", RefusalReason.NO_ROOM, "no machines in time", job_code=4),
    # https://github.com/GoogleCloudPlatform/vertex-ai-samples/issues/2176
    *(
        sample(f"image, code {code}-O", RefusalReason.IMAGE, IMAGE, job_code=code)
        for code in (3, 7, 9, None)
    ),
    sample("attachment-R", RefusalReason.NOT_HERE, ATTACHMENT, job_code=5),
    # https://github.com/GoogleCloudPlatform/vertex-ai-samples/issues/1898
    sample(
        "cannot start-O",
        RefusalReason.CONTAINER,
        "The replica workerpool0-0 exited with a non-zero status of 128. Termination reason: "
        "StartError. \n Termination log message: failed to create containerd task: x",
        job_code=3,
    ),
    # Crashed within one look: its own words are no stockout and no quota
    *(
        sample(
            f"a container's stderr says {tail!r}-I",
            RefusalReason.CONTAINER,
            CONTAINER.format(tail=tail),
            job_code=code,
        )
        for tail in (STOCKOUT, "google.api_core.exceptions.TooManyRequests: quota exceeded")
        for code in (3, None)
    ),
    sample(
        "a container's end, wrapped-I",
        RefusalReason.CONTAINER,
        f"code=INVALID_ARGUMENT, message={CONTAINER.format(tail='quota exceeded')}",
    ),
    sample("code 3 without a known word-I", RefusalReason.WRONG_REQUEST, "no", job_code=3),
]

STARTED = [
    # https://cloud.google.com/vertex-ai/docs/training/use-spot-vms
    sample("spot-D", RefusalReason.PREEMPTED, STOCKOUT, job_code=8),
    sample("spot, without a number-D", RefusalReason.PREEMPTED, STOCKOUT),
    sample("preempted-I", RefusalReason.PREEMPTED, "The machine was preempted.", job_code=13),
    *(
        sample(f"spot, code {code}-I", RefusalReason.PREEMPTED, STOCKOUT, job_code=code)
        for code in (2, 3, 5, 9, 10, 13, 14, 15)
    ),
    sample(
        "container, its status and a stockout in one line-I",
        RefusalReason.CONTAINER,
        f"The replica workerpool0-0 exited with a non-zero status of 1. {STOCKOUT}",
        job_code=13,
    ),
    sample("stderr below another sentence-I", RefusalReason.ENDED, f"It failed.\n{STOCKOUT}"),
    sample("internal-D", RefusalReason.INTERNAL, "Internal error occurred", job_code=13),
    sample("container-O", RefusalReason.CONTAINER, CONTAINER.format(tail="boom"), job_code=3),
    sample(
        "memory-D",
        RefusalReason.CONTAINER,
        "The replica workerpool1-0 ran out of memory and exited with a non-zero status of 137.",
        job_code=3,
    ),
    sample("cancelled-O", RefusalReason.CANCELLED, "CANCELED", job_code=1),
    sample("time-I", RefusalReason.TIME_LIMIT, "too long", job_code=4),
    sample("quota-I", RefusalReason.ENDED, QUOTA, job_code=8),
    sample("unknown-I", RefusalReason.ENDED, "Unexpected response."),
]


@pytest.mark.parametrize(("given", "reason"), REFUSED_CREATES)
def test_a_refused_create_is_read_by_reason_code_and_words(
    given: dict[str, Any], reason: RefusalReason
) -> None:
    assert classify(when=AT_CREATE, **given).reason is reason


@pytest.mark.parametrize(("given", "reason"), NEVER_STARTED)
def test_a_job_that_never_started_is_read_by_code_and_words(
    given: dict[str, Any], reason: RefusalReason
) -> None:
    assert classify(when=BEFORE, **given).reason is reason


@pytest.mark.parametrize(("given", "reason"), STARTED)
def test_a_job_that_had_started_is_never_no_room(
    given: dict[str, Any], reason: RefusalReason
) -> None:
    assert classify(when=AFTER, **given).reason is reason


@pytest.mark.parametrize(
    "text",
    [
        'Machine type "a3-highgpu-8g" is not supported in us-east4.',
        "Accelerator NVIDIA_L4 is not supported for europe-west12.",
        "NVIDIA_H100_80GB is not currently supported in the us-central1 region.",
        "Machine type c3-standard-8 is not available in location northamerica-northeast1.",
        "Spot VMs are not yet available in southamerica-west1-a",
        "Serverless training is not offered in the following regions: me-central2",
        "This machine type is not supported in region us-east4.",
        "Region us-east4 does not support the machine type a3-highgpu-8g.",
        "The location europe-southwest1 does not offer it.",
        "us-east4 doesn't support NVIDIA_L4.",
    ],
)
@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "FAILED_PRECONDITION", ""])
def test_what_one_place_does_not_have_rules_out_that_place(code: str, text: str) -> None:
    assert classify(when=AT_CREATE, grpc_code=code, text=text).reason is RefusalReason.NOT_HERE


@pytest.mark.parametrize(
    "text",
    [
        'Accelerator "NVIDIA_TESLA_K80" is not supported for machine type "n1-standard-4"',
        "Accelerator count 3 is not supported for accelerator k80.",
        "Replica count is not supported for machine type a2.",
        "boot_disk_type is not available in version v2.",
        "The machine type n1-standard-4 does not support accelerator NVIDIA_L4.",
        "Spot is not supported for us.",
    ],
)
def test_what_no_place_has_is_a_wrong_request(text: str) -> None:
    refusal = classify(when=AT_CREATE, grpc_code="INVALID_ARGUMENT", text=text)

    assert refusal.reason is RefusalReason.WRONG_REQUEST


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("RESOURCE_EXHAUSTED", "NVIDIA_L4 is not available in us-east4."),
        ("UNAVAILABLE", "The machines are not available in region us-east4."),
        ("", "NVIDIA_L4 is not available in us-east4 at the moment."),
        ("", "a2-highgpu-1g is not available in zone us-east4-a right now. Come back later."),
    ],
)
def test_what_one_place_does_not_have_now_it_may_have_later(code: str, text: str) -> None:
    refusal = classify(when=AT_CREATE, grpc_code=code, text=text)

    assert refusal.scope in {Scope.HOP_COME_BACK, Scope.AGAIN_THEN_HOP}


QUOTA_WORDS = [
    ("quota", "exceeded"),
    ("quotas", "exceed"),
    ("quota limit", "exceeds"),
    ("Quota 'NVIDIA_T4_GPUS'", "exceeded.  Limit: 1.0 in region us-central1"),
    ("quota metrics in europe-west4 of 12", "exceeding the limits"),
    ("QUOTA", "EXCEEDED"),
    ("CustomModelTrainingQuota", "isExceeded"),
    ("quota_metric", "limit_exceeded"),
]


@pytest.mark.parametrize(
    ("first", "second"),
    [pair for words in QUOTA_WORDS for pair in (words, words[::-1])],
)
def test_a_quota_is_known_in_any_order_and_number(first: str, second: str) -> None:
    text = f"Cannot run: the {first} of project 42 for 3 us-east1 machines, 7 of them, {second}."

    assert classify(when=BEFORE, text=text).reason is RefusalReason.QUOTA


@pytest.mark.parametrize(
    "text",
    [
        "The diameter in Miami is wrong",  # holds "iam"
        "Capacity planning was not done",
        "The quotation exceeded its page",
        "An imagepath was not found",
    ],
)
def test_words_count_only_whole(text: str) -> None:
    assert classify(when=BEFORE, text=text).reason is RefusalReason.UNKNOWN


def test_an_unknown_text_is_no_room_now_and_is_kept_verbatim() -> None:
    text = "Something\tnobody has ever  seen \n" * 200

    refusal = classify(when=BEFORE, text=text)

    assert refusal.scope is Scope.HOP_COME_BACK
    assert refusal.message == text


def test_the_error_reason_counts_before_the_code_and_the_code_before_the_words() -> None:
    said = classify(
        when=AT_CREATE,
        error_reason="RATE_LIMIT_EXCEEDED",
        grpc_code="PERMISSION_DENIED",
        text=STOCKOUT,
    )
    coded = classify(when=AT_CREATE, grpc_code="PERMISSION_DENIED", text=STOCKOUT)

    assert (said.scope, coded.scope) == (Scope.SAME_LATER, Scope.OTHER_PROJECT)


@pytest.mark.parametrize(
    ("words", "reason"),
    [(QUOTA, RefusalReason.QUOTA), (RATE, RefusalReason.RATE), ("x", RefusalReason.NO_ROOM)],
)
def test_our_own_words_before_the_service_s_change_nothing(
    words: str, reason: RefusalReason
) -> None:
    """The status' name is no stockout, though it says "resource exhausted"."""
    text = f"Could not create CustomJob in projects/p/locations/r: RESOURCE_EXHAUSTED: {words}."

    refusal = classify(when=AT_CREATE, grpc_code="RESOURCE_EXHAUSTED", text=text)

    assert refusal.reason is reason


def test_a_create_s_code_counts_before_a_job_s() -> None:
    both = classify(when=AT_CREATE, grpc_code="INVALID_ARGUMENT", job_code=8, text="no")

    assert both.scope is Scope.STOP


@pytest.mark.parametrize(
    ("reason", "scope"),
    [
        (RefusalReason.NO_ROOM, Scope.HOP_COME_BACK),
        (RefusalReason.QUOTA, Scope.HOP_NEVER_BACK),
        (RefusalReason.WRONG_REQUEST, Scope.STOP),
        (RefusalReason.CANCELLED, Scope.STOP),
        (RefusalReason.ACCESS, Scope.OTHER_PROJECT),
        (RefusalReason.RATE, Scope.SAME_LATER),
        (RefusalReason.INTERNAL, Scope.AGAIN_THEN_HOP),
        (RefusalReason.PREEMPTED, Scope.NEXT_AS_RESTART),
        (RefusalReason.AILING, Scope.HOP_COME_BACK),
        (RefusalReason.NETWORK, Scope.HOP_COME_BACK),
        (RefusalReason.IMAGE, Scope.HOP),
    ],
)
def test_what_follows_is_the_reason_s_alone(reason: RefusalReason, scope: Scope) -> None:
    assert SCOPE_OF[reason] is scope


def test_every_reason_has_a_scope_and_words_of_its_own() -> None:
    assert set(SCOPE_OF) == set(RefusalReason)
    assert len({reason.value for reason in RefusalReason}) == len(RefusalReason)


def test_every_reason_but_the_container_s_own_sentence_is_in_the_table() -> None:
    """Nor are the one that takes two creates to tell, and the one that no words tell."""
    others = {RefusalReason.AILING, RefusalReason.RESCHEDULED}
    assert {row.reason for row in TABLE} == set(RefusalReason) - others


def test_whatever_arrives_has_an_answer() -> None:
    reasons = ["", "RATE_LIMIT_EXCEEDED", "TOMORROW'S"]
    codes = [None, "", "OK", "INTERNAL", "TOMORROW'S"]
    numbers = [None, *range(-1, 20)]

    for when, reason, code, number in itertools.product(When, reasons, codes, numbers):
        given = {"error_reason": reason, "grpc_code": code, "job_code": number}
        refusal = classify(when=when, text="x", **given)
        assert refusal.scope is SCOPE_OF[refusal.reason]


def test_only_a_preemption_and_an_internal_error_go_on_after_the_start() -> None:
    texts = ["", STOCKOUT, QUOTA, IMAGE, BUCKET, PERMISSION, "CANCELED"]

    scopes = {
        classify(when=AFTER, job_code=code, text=text).scope
        for code in [None, *range(1, 17)]
        for text in texts
    }

    assert scopes == {Scope.STOP, Scope.NEXT_AS_RESTART, Scope.AGAIN_THEN_HOP}


@pytest.mark.parametrize("code", range(17))
@pytest.mark.parametrize(
    "text",
    [
        STOCKOUT,
        QUOTA,
        f"{QUOTA}. Try a different region.",
        "The machine was preempted.",
        "gone",
        CONTAINER.format(tail=STOCKOUT),
        f"It failed.\n{STOCKOUT}",
    ],
)
def test_a_preemption_is_one_here_and_in_a_job_s_diagnosis(code: int, text: str) -> None:
    """Two places read the same answer: one says whether to go on, the other where."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    job = JobSnapshot(
        resource_name=ResourceName("42", "us-central1", "1"),
        display_name="j",
        phase=JobPhase.FAILED,
        state="JOB_STATE_FAILED",
        observed_at=moment,
        create_time=moment,
        start_time=moment,
        end_time=moment,
        error=JobError(code=code, message=text),
        described=True,
    )

    here = classify(when=AFTER, job_code=code, text=text).reason is RefusalReason.PREEMPTED
    there = diagnose(job, RunPolicy(spot=True)).reason is TerminationReason.PREEMPTED

    assert here == there
