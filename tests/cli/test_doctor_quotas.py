"""What doctor says of a project's limits: room for no job fails, for a smaller one warns."""

from __future__ import annotations

import pytest

from prefect_vertex.capacity.meters import Demand, PoolDemand
from prefect_vertex.capacity.quota import ProjectQuotas, preflight
from prefect_vertex.cli.doctor.about_quotas import about_quotas
from prefect_vertex.cli.doctor.finding import Verdict

GPUS = "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"


def demand(exempt: str = "") -> Demand:
    """Four replicas with one L4 each."""
    machine, kind = "g2-standard-8", "NVIDIA_L4"
    return Demand(
        index=0,
        project="p",
        location="us-central1",
        strategy="STANDARD",
        pools=(
            PoolDemand(
                machine_type=machine, replicas=1, accelerator_type=kind, accelerator_count=1
            ),
            PoolDemand(
                machine_type=machine, replicas=3, accelerator_type=kind, accelerator_count=1
            ),
        ),
        worker_count=4,
        exempt=exempt,
    )


@pytest.mark.parametrize(
    ("limit", "verdict"),
    [(0, Verdict.FAILED), (2, Verdict.WARNING), (None, Verdict.UNCHECKED)],
)
def test_a_limit_is_held_against_what_the_job_takes(limit: int | None, verdict: Verdict) -> None:
    limits = {} if limit is None else {(GPUS, "us-central1"): limit}
    (found,) = about_quotas(preflight([demand()], {"p": ProjectQuotas(limits=limits)}))

    assert found.verdict is verdict
    if limit is not None:
        assert f"custom_model_training_nvidia_l4_gpus: {limit} for 4" in found.text
        assert "--project p --filter metric:custom_model_training_nvidia_l4_gpus" in found.fix


def test_limits_that_were_not_read_say_why() -> None:
    (found,) = about_quotas(preflight([demand()], {"p": ProjectQuotas(problem="No answer.")}))

    assert found.verdict is Verdict.UNCHECKED
    assert "No answer." in found.text


def test_a_job_that_no_quota_counts_is_fine() -> None:
    (found,) = about_quotas(preflight([demand("it has a reservation")], {}))

    assert (found.verdict, found.text) == (Verdict.OK, "it has a reservation.")
