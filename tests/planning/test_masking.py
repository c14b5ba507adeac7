"""No secret that a job carries stands in what is printed, nor in an error, wherever it was put."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.masking import MASK
from prefect_vertex.planning.packed import pack, unpacked
from prefect_vertex.planning.plan import JobPlan

APlan = Callable[..., JobPlan]

KEY = "pnu_SECRETKEY123"
CARRIED: dict[str, Any] = {
    "env": {"PREFECT_API_KEY": KEY, "PREFECT_API_URL": "https://prefect.example/api"},
    "secret_env": frozenset({"PREFECT_API_KEY"}),
}
ENV = "/job_spec/worker_pool_specs/0/container_spec/env"
CONTAINER = "/job_spec/worker_pool_specs/0/container_spec"


def moved(op: str, path: str, origin: str = f"{ENV}/0/value") -> dict[str, Any]:
    return {"op": op, "from": origin, "path": path}


def shows_a_part(text: str) -> bool:
    """Eight characters of the key, in any case, are too many."""
    lower = text.lower()
    parts = (KEY[start : start + 8].lower() for start in range(len(KEY) - 7))
    return any(part in lower for part in parts)


@pytest.mark.parametrize(
    "operation",
    [
        moved("move", "/job_spec/network", ENV),
        moved("copy", "/job_spec/network", ENV),
        moved("copy", "/job_spec/network"),
        moved("copy", "/job_spec/service_account"),
        moved("copy", "/job_spec/scheduling"),
        moved("copy", f"{CONTAINER}/image_uri", ENV),
        {"op": "add", "path": "/job_spec/network", "value": KEY},
        {"op": "add", "path": "/job_spec/network", "value": f"projects/{KEY}/x"},
    ],
    ids=str,
)
def test_an_error_about_a_patched_job_shows_no_secret(
    a_plan: APlan, operation: dict[str, Any]
) -> None:
    """Not even the part of one that a shortened value ends with."""
    with pytest.raises(PlanError) as caught:
        a_plan(**CARRIED, job_spec_patch=(operation,))
    assert not shows_a_part(str(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.variable


@pytest.mark.parametrize(
    "operation",
    [
        moved("copy", f"{CONTAINER}/args"),
        moved("copy", f"{CONTAINER}/args/-"),
        moved("copy", f"{CONTAINER}/command/1"),
        moved("copy", "/labels/key"),
        moved("copy", f"{CONTAINER}/env/1/value"),
    ],
    ids=str,
)
def test_a_copy_of_a_secret_is_masked_where_it_is_printed(
    a_plan: APlan, operation: dict[str, Any]
) -> None:
    plan = a_plan(**CARRIED, job_spec_patch=(operation,))
    printed = plan.as_json()
    assert not shows_a_part(printed)
    assert printed.count(MASK) == 2
    assert not shows_a_part(" ".join(plan.warnings))


def test_a_warning_about_a_patched_job_shows_no_secret(a_plan: APlan) -> None:
    disk = {"op": "add", "path": "/job_spec/worker_pool_specs/0/disk_spec", "value": {}}
    kind = moved("copy", "/job_spec/worker_pool_specs/0/disk_spec/boot_disk_type")
    warnings = a_plan(**CARRIED, job_spec_patch=(disk, kind)).warnings
    assert warnings[0].startswith(f"boot_disk_type '{MASK}' is none of")
    assert not shows_a_part(" ".join(warnings))


def test_a_secret_outside_env_is_warned_of(a_plan: APlan) -> None:
    plan = a_plan(**CARRIED, job_spec_patch=(moved("copy", "/labels/key"),))
    assert "The value of PREFECT_API_KEY stands in the job outside env" in plan.warnings[-1]
    assert a_plan(**CARRIED).warnings == ()


def test_a_secret_under_another_name_is_masked_where_it_travels_packed(a_plan: APlan) -> None:
    env = {**CARRIED["env"], "COPY": f"$ {KEY}"}
    plan = a_plan(env=env, secret_env=CARRIED["secret_env"])
    assert plan.packed_env == {"COPY"}
    (pool,) = json.loads(plan.as_json())["custom_job"]["job_spec"]["worker_pool_specs"]
    values = {entry["name"]: entry["value"] for entry in pool["container_spec"]["env"]}
    assert values["PREFECT_VERTEX_ENV_0"] == MASK
    assert values["PREFECT_API_KEY"] == MASK


def test_a_secret_that_a_pool_or_a_patch_sets_is_masked(a_plan: APlan) -> None:
    own = [{"name": "PREFECT_API_KEY", "value": KEY}, {"name": "COPY", "value": f"={KEY}"}]
    value = {"name": "PREFECT_API_AUTH_STRING", "value": f"user:{KEY}"}
    plan = a_plan(
        pool={"container_spec": {"image_uri": "i:1", "env": own}},
        secret_env=frozenset({"PREFECT_API_KEY", "PREFECT_API_AUTH_STRING"}),
        job_spec_patch=({"op": "add", "path": f"{ENV}/-", "value": value},),
    )
    assert not shows_a_part(plan.as_json())


def test_without_secrets_nothing_is_masked(a_plan: APlan) -> None:
    plan = a_plan(env={"TOKEN": KEY})
    assert KEY in plan.as_json()
    with pytest.raises(PlanError, match=KEY):
        a_plan(env={"TOKEN": KEY}, spec={"network": KEY})


def test_what_is_packed_can_be_read_again() -> None:
    values = {"A": "$HOME", "B": "x" * 300_000}
    assert unpacked({**pack(values), "C": "3"}) == values
    assert unpacked({"C": "3"}) == {}
