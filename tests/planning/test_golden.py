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
