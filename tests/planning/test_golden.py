"""Whole requests, one file each in tests/planning/golden."""

from __future__ import annotations

from collections.abc import Callable

from prefect_vertex.planning.code import CodeReference
from prefect_vertex.planning.plan import JobPlan

APlan = Callable[..., JobPlan]
Golden = Callable[[JobPlan, str], None]

GPU = {
    "machine_spec": {
        "machine_type": "g2-standard-24",
        "accelerator_type": "nvidia-l4",
        "accelerator_count": 2,
    },
    "disk_spec": {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": 300},
}
IMAGE = "europe-docker.pkg.dev/p/flows/forecast:1"


def test_single_replica(a_plan: APlan, matches_golden: Golden) -> None:
    plan = a_plan(
        name="forecast",
        labels={"team": "Demand Planning"},
        env={"PREFECT_API_URL": "https://prefect.example/api", "SEASON": "12"},
        spec={"scheduling": {"timeout": "PT90M", "disable_retries": True}},
    )
    matches_golden(plan, "single_replica")


def test_three_replicas_with_staged_code(a_plan: APlan, matches_golden: Golden) -> None:
    plan = a_plan(
        attempt=2,
        worker_count=3,
        code=CodeReference(
            "gs://bucket/code/forecast-0123456789abcdef.zip", "0123456789abcdef" * 4
        ),
        checkpoint_dir="gs://bucket/checkpoints/0f1e2d3c-1111-4222-8333-444455556666",
        setup_command=['export LEVEL="$HOME"'],
        python_command=["/opt/venv/bin/python"],
        spec={"scheduling": {"strategy": "spot", "timeout": 3600, "disable_retries": True}},
    )
    matches_golden(plan, "three_replicas")


def test_gpu_with_vertex_retries(a_plan: APlan, matches_golden: Golden) -> None:
    plan = a_plan(
        pool=GPU,
        spec={
            "service_account": "runner@forecasts.iam.gserviceaccount.com",
            "scheduling": {
                "strategy": "FLEX_START",
                "max_wait_duration": "1800s",
                "timeout": "PT24H",
                "disable_retries": False,
            },
        },
    )
    matches_golden(plan, "gpu_with_retries")


def test_pools_edited_by_the_user(a_plan: APlan, matches_golden: Golden) -> None:
    first = {
        "container_spec": {
            "image_uri": IMAGE,
            "command": "python train.py",
            "args": ["--model-dir=$(AIP_MODEL_DIR)"],
            "env": [
                {"name": "LEVEL", "value": "$(SEASON)-own"},
                {"name": "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR", "value": "crash"},
            ],
        },
        "nfs_mounts": [{"server": "10.0.0.2", "path": "/data", "mount_point": "data"}],
    }
    reducer = {
        "machine_spec": {"machine_type": "n1-highcpu-16"},
        "container_spec": {"image_uri": "europe-docker.pkg.dev/v/training/reductionserver:latest"},
    }
    plan = a_plan(
        env={"SEASON": "12", "LEVEL": "job"},
        spec={
            "worker_pool_specs": [first, None, reducer],
            "scheduling": {"disable_retries": True},
            "psc_interface_config": {"network_attachment": "attachment"},
            "base_output_directory": {"output_uri_prefix": "gs://bucket/out"},
        },
    )
    matches_golden(plan, "edited_pools")


HERE = "projects/forecasts/locations/europe-west4"


def test_parameter_servers_and_an_evaluator(a_plan: APlan, matches_golden: Golden) -> None:
    """The second pool is skipped and keeps its place."""
    server = {"container_spec": {"image_uri": IMAGE, "command": ["serve"]}, "replica_count": 2}
    evaluator = {"container_spec": {"env": {"ROLE": "evaluator", "OF": "$(SEASON)"}}}
    first = {"container_spec": {"image_uri": IMAGE}}
    plan = a_plan(
        env={"SEASON": "12"},
        spec={"worker_pool_specs": [first, {}, server, evaluator]},
    )
    matches_golden(plan, "servers_and_evaluator")


def test_a_private_network_with_own_keys(a_plan: APlan, matches_golden: Golden) -> None:
    attachment = "projects/forecasts/regions/europe-west4/networkAttachments/vertex"
    peering = {"domain": "corp.", "target_project": "net", "target_network": "main"}
    plan = a_plan(
        encryption_spec={"kms_key_name": f"{HERE}/keyRings/ring/cryptoKeys/key"},
        spec={
            "service_account": "runner@forecasts.iam.gserviceaccount.com",
            "tensorboard": f"{HERE}/tensorboards/1",
            "experiment": f"{HERE}/metadataStores/default/contexts/forecasts",
            "base_output_directory": {"output_uri_prefix": "gs://bucket/out"},
            "psc_interface_config": {
                "network_attachment": attachment,
                "dns_peering_configs": [peering],
            },
        },
    )
    matches_golden(plan, "private_network")


def test_an_env_that_is_too_wild_to_travel_as_it_is(a_plan: APlan, matches_golden: Golden) -> None:
    many = {f"LAG_{number:03}": str(number) for number in range(110)}
    plan = a_plan(env={**many, "QUERY": "$(SEASON) costs 5$"}, worker_count=2)
    matches_golden(plan, "packed_env")


def test_a_patched_job(a_plan: APlan, matches_golden: Golden) -> None:
    plan = a_plan(
        labels={"team": "demand"},
        worker_count=2,
        replicas="command",
        job_spec_patch=[
            {"op": "add", "path": "/job_spec/models", "value": [f"{HERE}/models/1"]},
            {
                "op": "replace",
                "path": f"{SECOND}/machine_spec/machine_type",
                "value": "e2-highmem-8",
            },
            {"op": "add", "path": f"{SECOND}/container_spec/args/-", "value": "--small"},
            {"op": "add", "path": "/labels/cost-centre", "value": "c7"},
        ],
    )
    matches_golden(plan, "patched")


SECOND = "/job_spec/worker_pool_specs/1"


def test_a_python_package(a_plan: APlan, matches_golden: Golden) -> None:
    package = {
        "executor_image_uri": "europe-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4:latest",
        "package_uris": ["gs://bucket/forecast-1.tar.gz"],
        "python_module": "forecast.train",
        "args": ["--season=12"],
    }
    matches_golden(
        a_plan(spec={"worker_pool_specs": [{"python_package_spec": package}]}, worker_count=2),
        "python_package",
    )


def test_a_persistent_resource(a_plan: APlan, matches_golden: Golden) -> None:
    plan = a_plan(pool=GPU | CONTAINER, spec={"persistent_resource_id": "dev-loop"})
    matches_golden(plan, "persistent_resource")


def test_a_reservation(a_plan: APlan, matches_golden: Golden) -> None:
    affinity = {
        "reservation_affinity_type": "specific-reservation",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["projects/forecasts/zones/europe-west4-b/reservations/l4"],
    }
    machine = {**GPU["machine_spec"], "reservation_affinity": affinity}
    matches_golden(a_plan(pool={"machine_spec": machine} | CONTAINER), "reservation")


CONTAINER = {"container_spec": {"image_uri": IMAGE}}
