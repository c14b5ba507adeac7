"""What the end of a job says that was accepted: whether there were machines, and what follows.

Beside `test_refusals`, which has the samples of refused creates.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.capacity.refusal_samples import (
    AFTER,
    ATTACHMENT,
    BEFORE,
    BUCKET,
    CONTAINER,
    IMAGE,
    PERMISSION,
    QUOTA,
    STOCKOUT,
    sample,
)

from prefect_vertex.capacity.refusals import RefusalReason, Scope, classify
from prefect_vertex.lifecycle.diagnosis import diagnose
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.snapshot import JobError, JobSnapshot
from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.planning.naming import ResourceName

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
