"""How words, codes and reasons of a refusal are weighed, and what follows from each reason.

Beside `test_refusals`, which has the service's own wordings.
"""

from __future__ import annotations

import itertools

import pytest
from tests.capacity.refusal_samples import AT_CREATE, BEFORE, QUOTA, RATE, STOCKOUT

from prefect_vertex.capacity.reasons import SCOPE_OF
from prefect_vertex.capacity.refusals import RefusalReason, Scope, When, classify
from prefect_vertex.capacity.rows import TABLE


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
