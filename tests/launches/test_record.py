"""The launch record: what it says, and what is refused as one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.code import CodeReference
from prefect_vertex.planning.launches import (
    MAX_PARAMETER_CHARACTERS,
    MAX_PARAMETERS_CHARACTERS,
    VERSION,
    bounded,
    digest_of,
    read_record,
    record_text,
    record_uri,
    records_folder,
)
from prefect_vertex.planning.plan import JobPlan

APlan = Callable[..., JobPlan]
ARecord = Callable[..., dict[str, Any]]
WHERE = "gs://staging/launches/x/a1.json"


@pytest.mark.parametrize(
    ("folder", "uri"),
    [
        ("gs://staging", "gs://staging/launches/run/a3.json"),
        ("gs://staging/team/a", "gs://staging/team/a/launches/run/a3.json"),
    ],
)
def test_a_record_lies_under_flow_run_and_attempt(folder: str, uri: str) -> None:
    assert record_uri(folder, "run", 3) == uri
    assert uri.startswith(f"{records_folder(folder, 'run')}/")


def test_it_holds_the_exact_request_and_whose_it_is(a_plan: APlan, a_record: ARecord) -> None:
    plan = a_plan(code=CodeReference("gs://staging/code/x.zip", "ab" * 32))
    record = a_record(plan, parameters={"horizon": 12}, job_variables={"image": "i:1"})

    assert record["request"] == json.loads(plan.as_json())
    assert record["version"] == VERSION
    assert record["created_at"] == "2026-11-30T12:00:00.123000+00:00"
    assert record["job"]["resource_name"] == "projects/42/locations/europe-west4/customJobs/7"
    assert record["code"] == {"uri": "gs://staging/code/x.zip", "sha256": "ab" * 32}
    run = record["flow_run"]
    assert (run["flow_name"], run["deployment_name"]) == ("forecast", "nightly")
    assert (run["parameters"], run["job_variables"]) == ({"horizon": 12}, {"image": "i:1"})
    assert record["packages"] == {"prefect": "3.9.1", "prefect-vertex": "0.1.0"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param(
            {},
            {
                "number": 1,
                "of": ["europe-west4"],
                "machine_type": "n1-standard-4",
                "accelerator_type": "",
                "accelerator_count": 0,
                "strategy": "STANDARD",
                "replicas": 1,
                "project": "forecasts",
                "location": "europe-west4",
            },
            id="one replica",
        ),
        pytest.param({"worker_count": 3}, {"replicas": 3}, id="three replicas"),
        pytest.param(
            {
                "pool": {
                    "machine_spec": {
                        "machine_type": "g2-standard-12",
                        "accelerator_type": "NVIDIA_L4",
                        "accelerator_count": 1,
                    }
                }
            },
            {"accelerator_type": "NVIDIA_L4", "accelerator_count": 1},
            id="accelerator",
        ),
        pytest.param({"index": 1}, {"number": 2}, id="second candidate"),
    ],
)
def test_it_says_what_was_asked_for(
    a_plan: APlan, a_record: ARecord, changes: dict[str, Any], says: dict[str, Any]
) -> None:
    candidate = a_record(a_plan(**changes))["candidate"]

    assert {name: candidate[name] for name in says} == says


def test_the_resource_plan_is_that_of_the_plan(a_plan: APlan, a_record: ARecord) -> None:
    plan = a_plan(worker_count=2)

    assert a_record(plan)["resource_plan"] == [each.as_json() for each in plan.resources]
    assert len(plan.resources) == 2


def test_equal_launches_give_the_same_text_and_it_can_be_read_again(a_record: ARecord) -> None:
    first = record_text(a_record(parameters={"a": "über"}))

    assert first == record_text(a_record(parameters={"a": "über"}))
    assert read_record(json.loads(first), WHERE) == json.loads(first)


def test_long_parameters_are_left_out_with_their_length() -> None:
    long, rest = "x" * MAX_PARAMETER_CHARACTERS, "y" * (MAX_PARAMETER_CHARACTERS - 2)
    kept, omitted = bounded({"a": 1, "long": long, "b": rest})

    assert kept == {"a": 1, "b": rest}
    assert omitted == {"long": MAX_PARAMETER_CHARACTERS + 2}


def test_many_parameters_end_where_there_is_no_room_left() -> None:
    each = "x" * (MAX_PARAMETER_CHARACTERS - 2)
    room = MAX_PARAMETERS_CHARACTERS // MAX_PARAMETER_CHARACTERS
    kept, omitted = bounded({f"p{number}": each for number in range(room + 2)} | {"small": None})

    assert len(kept) == room
    assert set(omitted) == {f"p{room}", f"p{room + 1}", "small"}


def test_the_order_of_keys_does_not_change_a_template_s_digest() -> None:
    assert digest_of({"a": 1, "b": {"c": 2, "d": 3}}) == digest_of({"b": {"d": 3, "c": 2}, "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})


def test_a_later_version_is_told_apart(a_record: ARecord) -> None:
    with pytest.raises(PlanError, match="of version 2; this prefect-vertex reads up to version 1"):
        read_record({**a_record(), "version": VERSION + 1}, WHERE)


@pytest.mark.parametrize("value", [None, [], {}, {"version": 1}, {"kind": "other", "version": 1}])
def test_what_is_no_record_is_said_to_be_none(value: Any) -> None:
    with pytest.raises(PlanError, match=f"{WHERE} is not a launch record"):
        read_record(value, WHERE)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"version": "1"}, "version"),
        ({"version": True}, "version"),
        ({"attempt": None}, "attempt"),
        ({"flow_run": []}, "flow_run"),
        ({"flow_run": {"id": 7}}, "id"),
        ({"code": "gs://x"}, "code"),
        ({"request": {}}, "request"),
        ({"request": {"parent": "p", "custom_job": {}}}, "request"),
    ],
)
def test_a_damaged_record_is_refused_by_its_part(
    a_record: ARecord, changes: dict[str, Any], part: str
) -> None:
    with pytest.raises(PlanError, match=f"not a whole launch record: its {part} is wrong"):
        read_record({**a_record(), **changes}, WHERE)
