"""Rules between the parts of a job; each case's id is what Vertex AI itself would say or do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from prefect_vertex.errors import MachineSpecError, PlanError, SchedulingError
from prefect_vertex.planning.placement import check_locations, check_placement
from prefect_vertex.planning.plan import JobPlan
from prefect_vertex.planning.spec import Candidate

APlan = Callable[..., JobPlan]
NETWORK = "projects/12345/global/networks/net"
ATTACHMENT = "projects/p/regions/europe-west4/networkAttachments/a"
RESERVATION = "projects/p/zones/europe-west4-a/reservations/mine"


def gpu(machine: str, kind: str, count: int = 1, **more: Any) -> dict[str, Any]:
    spec = {"machine_type": machine, "accelerator_type": kind, "accelerator_count": count}
    return {"machine_spec": {**spec, **more}}


def affinity(kind: str, **more: Any) -> dict[str, Any]:
    return {"reservation_affinity": {"reservation_affinity_type": kind, **more}}


def specific(*names: str) -> dict[str, Any]:
    key = "compute.googleapis.com/reservation-name"
    return affinity("SPECIFIC_RESERVATION", key=key, values=list(names))


T4 = gpu("n1-standard-4", "NVIDIA_TESLA_T4")
L4 = gpu("g2-standard-8", "NVIDIA_L4")
B200 = gpu("a4-highgpu-8g", "NVIDIA_B200", 8)
CPU = {"machine_spec": {"machine_type": "n1-standard-4"}}
POD = {"machine_spec": {"machine_type": "ct5lp-hightpu-4t", "tpu_topology": "4x4"}}
SPOT = {"scheduling": {"strategy": "SPOT"}}
LOW_COST = {"scheduling": {"strategy": "LOW_COST"}}
FLEX_START = {"scheduling": {"strategy": "FLEX_START"}}


def with_(*pools: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"worker_pool_specs": list(pools), **spec}


def lustre(place: str) -> dict[str, Any]:
    return {"lustre_mounts": [{"volume_handle": f"projects/p/locations/{place}/instances/l"}]}


REFUSED = [
    pytest.param(
        with_(CPU, network=NETWORK, psc_interface_config={"network_attachment": ATTACHMENT}),
        PlanError,
        "network",
        "network and psc_interface_config are both set",
        id="documented: VPC peering or a PSC interface (no wording on record)",
    ),
    pytest.param(
        with_(CPU, reserved_ip_ranges=["range"]),
        PlanError,
        "reserved_ip_ranges",
        "without the network",
        id="documented: ranges under the VPC network of the job (no wording on record)",
    ),
    pytest.param(
        with_(CPU, network="projects/my-project/global/networks/net"),
        PlanError,
        "network",
        "expected projects/NUMBER/global/networks/NAME",
        id="documented: where {project} is a project number, as in 12345",
    ),
    pytest.param(
        with_(CPU, network="net"),
        PlanError,
        "network",
        "network is 'net'",
        id="documented: projects/{project}/global/networks/{network}",
    ),
    *(
        pytest.param(
            with_(gpu(machine, kind, 8), network=NETWORK),
            MachineSpecError,
            "network",
            f"{kind} machines cannot be peered",
            id=f"documented: VPC peering is not supported with {kind}",
        )
        for machine, kind in (
            ("a3-megagpu-8g", "NVIDIA_H100_MEGA_80GB"),
            ("a3-ultragpu-8g", "NVIDIA_H200_141GB"),
            ("a4-highgpu-8g", "NVIDIA_B200"),
            ("a4x-highgpu-4g", "NVIDIA_GB200"),
        )
    ),
    pytest.param(
        with_(T4, **FLEX_START),
        MachineSpecError,
        "strategy",
        "n1-standard-4 has NVIDIA_TESLA_T4",
        id="documented: Your custom training job requests L4, A100, H100, H200, or B200 GPUs",
    ),
    pytest.param(
        with_(CPU, **FLEX_START),
        MachineSpecError,
        "strategy",
        "n1-standard-4 has no GPU",
        id="documented: Flex Start is for jobs that request GPUs",
    ),
    pytest.param(
        with_(L4, gpu("g2-standard-12", "NVIDIA_L4"), **FLEX_START),
        SchedulingError,
        "strategy",
        "the same machine in all worker pools",
        id="documented: uses the same machine configuration for all worker pools",
    ),
    pytest.param(
        with_(POD, **SPOT),
        MachineSpecError,
        "strategy",
        "SPOT is not offered for TPU pods",
        id="documented: Spot VMs cannot be TPU pods",
    ),
    pytest.param(
        with_(POD, **LOW_COST),
        MachineSpecError,
        "strategy",
        "LOW_COST is not offered for TPU pods",
        id="Spot VMs cannot be TPU pods, by its older name",
    ),
    pytest.param(
        with_(gpu("g2-standard-8", "NVIDIA_L4", 1, **affinity("SPECIFIC_RESERVATION"))),
        PlanError,
        "reservation_affinity",
        "needs key and values; they are None and []",
        id="documented: SPECIFIC_RESERVATION needs key and values",
    ),
    pytest.param(
        with_({"machine_spec": {"machine_type": "n1-standard-4", **specific("mine")}}),
        PlanError,
        "reservation_affinity",
        "names 'mine', expected projects/PROJECT/zones/ZONE/reservations/NAME",
        id="documented: This must be the full resource name of the reservation",
    ),
    pytest.param(
        with_({"machine_spec": {"machine_type": "n1-standard-4", **affinity("x", values=["y"])}}),
        PlanError,
        "reservation_affinity",
        "names a reservation, but its type is x",
        id="documented: key and values target a SPECIFIC_RESERVATION",
    ),
    *(
        pytest.param(
            with_(
                {"machine_spec": {"machine_type": "a2-highgpu-1g", **specific(RESERVATION)}}, **s
            ),
            PlanError,
            "reservation_affinity",
            "cannot be used with strategy",
            id=f"documented: reservations not with {s['scheduling']['strategy']}",
        )
        for s in (SPOT, LOW_COST, FLEX_START)
    ),
    pytest.param(
        with_(
            {"machine_spec": {"machine_type": "n1-standard-4", **affinity("ANY_RESERVATION")}},
            persistent_resource_id="mine",
        ),
        PlanError,
        "reservation_affinity",
        "by a job on a persistent resource",
        id="documented: reservations are not supported on persistent resources",
    ),
    pytest.param(
        with_(CPU, persistent_resource_id="Mine"),
        PlanError,
        "persistent_resource_id",
        "expected lower case letters, numbers and hyphens",
        id="persistent_resource_id can only contain numbers, lower case letters and hyphens.",
    ),
    pytest.param(
        with_(CPU, persistent_resource_id="mine-"),
        PlanError,
        "persistent_resource_id",
        "no hyphen last",
        id="the last character must be a letter or number.",
    ),
    pytest.param(
        with_(CPU, persistent_resource_id="mine", **SPOT),
        SchedulingError,
        "strategy",
        "has its machines; strategy is SPOT",
        id="documented: a persistent resource has no scheduling strategy",
    ),
    pytest.param(
        with_(CPU, persistent_resource_id="mine", **LOW_COST),
        SchedulingError,
        "strategy",
        "has its machines; strategy is LOW_COST",
        id="a persistent resource has no scheduling strategy, by its older name either",
    ),
    pytest.param(
        with_(
            {"machine_spec": {"machine_type": "ct6e-standard-1t"}},
            {},
            {"machine_spec": {"machine_type": "ct6e-standard-1t"}},
        ),
        MachineSpecError,
        "worker_pools",
        "of which a job has one worker pool; there are 2",
        id="documented: TPU training has one pool with one replica",
    ),
]


@pytest.mark.parametrize(("spec", "kind", "variable", "words"), REFUSED)
def test_what_vertex_would_refuse_is_refused_first(
    spec: dict[str, Any], kind: type[PlanError], variable: str, words: str
) -> None:
    with pytest.raises(kind) as caught:
        check_placement(spec)
    assert (caught.value.variable, words in caught.value.message) == (variable, True)
    assert caught.value.hint
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("spec", "kind", "variable", "words"), REFUSED)
def test_warn_sends_it_with_a_warning(
    spec: dict[str, Any], kind: type[PlanError], variable: str, words: str
) -> None:
    warnings = check_placement(spec, warn_only=True)
    assert any(words in line for line in warnings)
    assert all(line.endswith("because validate_hardware is warn.") for line in warnings)


@pytest.mark.parametrize(
    "spec",
    [
        with_(CPU),
        with_(CPU, network=NETWORK, reserved_ip_ranges=["range"]),
        with_(B200, psc_interface_config={"network_attachment": ATTACHMENT}),
        with_(B200, **FLEX_START),
        with_(L4, {}, L4, **FLEX_START),
        with_(gpu("r3-standard-8", "NVIDIA_R300"), **FLEX_START),
        with_(T4, **SPOT),
        with_({"machine_spec": {"machine_type": "a2-highgpu-1g", **specific(RESERVATION)}}),
        with_({"machine_spec": {"machine_type": "n1-standard-4", **affinity("NO_RESERVATION")}}),
        with_(CPU, persistent_resource_id="my-resource-1"),
        with_(CPU, persistent_resource_id="mine", scheduling={"strategy": "STANDARD"}),
        with_({"machine_spec": {"machine_type": "ct6e-standard-1t"}}, {}),
        {},
    ],
)
def test_what_vertex_takes_passes_without_a_word(spec: dict[str, Any]) -> None:
    assert check_placement(spec) == ()


@pytest.mark.parametrize(
    ("job", "variable", "words"),
    [
        (
            {
                "encryption_spec": {
                    "kms_key_name": "projects/p/locations/us/keyRings/r/cryptoKeys/k"
                }
            },
            "encryption_spec_key",
            "encryption_spec_key (encryption_spec.kms_key_name) names a KMS key in us",
        ),
        (
            {"job_spec": {"tensorboard": "projects/p/locations/us-east1/tensorboards/1"}},
            "tensorboard",
            "names a tensorboard in us-east1",
        ),
        (
            {
                "job_spec": {
                    "psc_interface_config": {
                        "network_attachment": "projects/p/regions/us-east1/networkAttachments/a"
                    }
                }
            },
            "psc_interface_config",
            "names a network attachment in us-east1",
        ),
        (
            {
                "job_spec": with_(
                    {"machine_spec": specific("projects/p/zones/us-east1-b/reservations/r")}
                )
            },
            "reservation_affinity",
            "names a reservation in us-east1",
        ),
        (
            {
                "job_spec": {
                    "persistent_resource_id": "projects/p/locations/us-east1/persistentResources/r"
                }
            },
            "persistent_resource_id",
            "names a persistent resource in us-east1",
        ),
        (
            {
                "job_spec": {
                    "experiment": "projects/p/locations/us-east1/metadataStores/default/contexts/e"
                }
            },
            "experiment",
            "names a metadata store in us-east1",
        ),
        (
            {"job_spec": with_(lustre("us-east1-b"))},
            "volume_handle",
            "names an instance in us-east1",
        ),
    ],
)
def test_a_name_in_another_location_is_refused(
    job: dict[str, Any], variable: str, words: str
) -> None:
    with pytest.raises(PlanError) as caught:
        check_locations(job, "europe-west4")
    assert caught.value.variable == variable
    assert words in caught.value.message
    assert "but the job runs in europe-west4" in caught.value.message


@pytest.mark.parametrize("place", ["europe-west4", "europe-west4-a", "europe-west4-ai1a"])
def test_a_zone_of_the_jobs_own_location_passes(place: str) -> None:
    """An instance of Lustre is in one, in a name that has the form of a region's."""
    check_locations({"job_spec": with_(lustre(place))}, "europe-west4")


def test_names_in_the_jobs_own_location_and_what_has_none_pass() -> None:
    check_locations(
        {
            "encryption_spec": {
                "kms_key_name": "projects/p/locations/europe-west4/keyRings/r/cryptoKeys/k"
            },
            "labels": {"x": "projects/p/locations/us-east1/tensorboards/1"},
            "job_spec": {
                "network": NETWORK,
                "psc_interface_config": {"network_attachment": "attachment"},
                "base_output_directory": {"output_uri_prefix": "gs://bucket-us-east1/x"},
                "worker_pool_specs": [
                    {
                        "machine_spec": specific(RESERVATION),
                        "container_spec": {
                            "args": ["projects/p/locations/us-east1/tensorboards/1"]
                        },
                    }
                ],
            },
        },
        "europe-west4",
    )


# --- through a plan -------------------------------------------------------------------------------


def test_a_plan_judges_the_job_that_is_sent(a_plan: APlan) -> None:
    with pytest.raises(MachineSpecError, match="SPOT is not offered for TPU pods"):
        a_plan(pool=POD, spec={"scheduling": {"strategy": 4}})
    with pytest.raises(PlanError, match="names a tensorboard in us-east1"):
        a_plan(
            spec={
                "tensorboard": "projects/p/locations/us-east1/tensorboards/1",
                "service_account": "a@p.iam.gserviceaccount.com",
            }
        )


def test_a_plan_sends_it_with_a_warning_where_it_is_told_to(a_plan: APlan) -> None:
    plan = a_plan(pool=T4, spec={"scheduling": {"strategy": 6}}, validate_hardware="warn")
    assert plan.request.custom_job.job_spec.scheduling.strategy == 6
    assert "FLEX_START waits for" in plan.warnings[0]


def test_followers_with_the_machine_of_the_first_pool_are_one_machine(
    a_plan: APlan, a_candidate: Callable[..., Candidate]
) -> None:
    plan = a_plan(pool=L4, spec={"scheduling": {"strategy": 6}}, worker_count=4)
    assert plan.warnings == ()


# --- machines, in the words of the service --------------------------------------------------------


@pytest.mark.parametrize(
    ("machine_spec", "words"),
    [
        pytest.param(
            {"machine_type": "n1-standard-4", "accelerator_type": "NVIDIA_TESLA_T4"},
            "accelerator_count is not set",
            id="Both `accelerator_type` and `accelerator_count` should be specified or none.",
        ),
        pytest.param(
            gpu("n1-standard-4", "NVIDIA_TESLA_K80")["machine_spec"],
            "NVIDIA_TESLA_K80 is no longer offered",
            id='Accelerator "NVIDIA_TESLA_K80" is not supported for machine type "n1-standard-4"',
        ),
        pytest.param(
            gpu("g2-standard-8", "NVIDIA_L4", 8)["machine_spec"],
            "g2-standard-8 takes NVIDIA_L4 in counts of 1; accelerator_count is 8",
            id='The accelerator count "8" is not allowed.',
        ),
    ],
)
def test_a_wrong_machine_is_refused_before_the_service_would(
    a_plan: APlan, machine_spec: dict[str, Any], words: str
) -> None:
    with pytest.raises(MachineSpecError, match=words):
        a_plan(pool={"machine_spec": machine_spec})


def test_a_machine_that_is_not_offered_is_only_warned_of(a_plan: APlan) -> None:
    """The service says: Machine type "n1-standard-1" is not supported. It may be one day."""
    plan = a_plan(pool={"machine_spec": {"machine_type": "n1-standard-1"}})
    assert "n1-standard-1 is not in the table" in plan.warnings[0]
