"""What doctor says of a pool's type, template and workers, from answers alone."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from prefect_vertex.cli.doctor.about_pool import (
    Drift,
    PoolFacts,
    about_kind,
    about_template,
    about_workers,
    drift_of,
    renewed_template,
)
from prefect_vertex.cli.doctor.finding import (
    Verdict,
    exit_code,
    failed,
    ok,
    tally,
    unchecked,
    warning,
)
from prefect_vertex.template import base_job_template


def facts(**known: Any) -> PoolFacts:
    return PoolFacts(**{"name": "gpus", "kind": "vertex-custom-job", **known})


@pytest.mark.parametrize(
    ("known", "verdict", "fix"),
    [
        ({}, Verdict.OK, ""),
        ({"kind": "vertex-ai"}, Verdict.OK, ""),
        ({"paused": True}, Verdict.WARNING, "prefect work-pool resume gpus"),
        (
            {"kind": "kubernetes"},
            Verdict.FAILED,
            "prefect work-pool create gpus-vertex --type vertex-custom-job",
        ),
    ],
)
def test_a_pool_is_of_a_type_that_this_worker_serves(
    known: dict[str, Any], verdict: Verdict, fix: str
) -> None:
    found = about_kind(facts(**known))

    assert (found.verdict, found.fix) == (verdict, fix)


@pytest.mark.parametrize(
    ("known", "verdict", "fix"),
    [
        ({"online": ["one"], "offline": ["two"]}, Verdict.OK, ""),
        ({"offline": ["two"]}, Verdict.WARNING, "prefect worker start --pool gpus"),
        ({}, Verdict.WARNING, "prefect worker start --pool gpus"),
        (
            {"name": "my pool", "kind": "vertex-ai"},
            Verdict.WARNING,
            "prefect worker start --pool 'my pool' --type vertex-custom-job",
        ),
    ],
)
def test_a_pool_without_a_worker_is_a_warning(
    known: dict[str, Any], verdict: Verdict, fix: str
) -> None:
    found = about_workers(facts(**known))

    assert (found.verdict, found.fix) == (verdict, fix)


def drifted() -> dict[str, Any]:
    """A template that is older, edited, and set up."""
    template = base_job_template({"region": "europe-west4", "worker_count": 3})
    properties = template["variables"]["properties"]
    del properties["gpu_type"]
    properties["team"] = {"type": "string", "default": "alpha"}
    properties["hardware"] = {"type": "integer"}
    template["job_configuration"]["labels"] = {"team": "{{ team }}"}
    del template["job_configuration"]["gpu_type"]
    return template


def test_drift_is_what_is_missing_unknown_changed_and_idle() -> None:
    """Another default is no drift: that is what a pool's form is for."""
    ours = base_job_template()

    assert drift_of(base_job_template({"region": "europe-west4"}), ours) == Drift()
    assert drift_of(drifted(), ours) == Drift(
        missing=("gpu_type",), unknown=("team",), changed=("hardware",), idle=("labels",)
    )


def test_a_drifted_template_is_a_warning_with_the_command_that_renews_it() -> None:
    found = about_template(facts(), drift_of(drifted(), base_job_template()))

    assert found.verdict is Verdict.WARNING
    assert all(name in found.text for name in ("gpu_type", "team", "hardware", "labels"))
    assert "doctor --pool gpus --template > template.json && prefect work-pool update" in found.fix
    assert about_template(facts(), Drift()).verdict is Verdict.OK


def test_a_renewed_template_has_all_that_is_ours_and_keeps_what_is_the_pool_s() -> None:
    """Defaults, own variables and edits of job_configuration stay; the arguments are unchanged."""
    old, ours = drifted(), base_job_template()
    before = deepcopy((old, ours))
    renewed = renewed_template(old, ours)
    properties = renewed["variables"]["properties"]

    assert (old, ours) == before
    assert drift_of(renewed, ours) == Drift(unknown=("team",), idle=("labels",))
    assert properties["region"]["default"] == "europe-west4"
    assert properties["worker_count"]["default"] == 3
    assert renewed["job_configuration"]["labels"] == {"team": "{{ team }}"}
    assert renewed["job_configuration"]["gpu_type"] == ours["job_configuration"]["gpu_type"]
    assert renewed_template(renewed, ours) == renewed


def test_only_what_failed_makes_the_exit_code() -> None:
    fine = [ok("a", ""), warning("b", ""), unchecked("c", "")]

    assert exit_code(fine) == 0
    assert exit_code([*fine, failed("d", "")]) == 1
    assert tally(fine) == {"ok": 1, "warning": 1, "failed": 0, "not checked here": 1}
