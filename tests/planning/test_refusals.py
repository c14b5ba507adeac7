"""What the service is known to refuse is refused here first, and said better.

The server's wordings are those of public reports, or of the field's documentation. Hardware and
placement have tables of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prefect_vertex.emulator.validation import check_custom_job
from prefect_vertex.errors import PlanError
from prefect_vertex.planning.plan import JobPlan

APlan = Callable[..., JobPlan]

IMAGE = "europe-docker.pkg.dev/p/flows/forecast:1"
ACCOUNT = "runner@p.iam.gserviceaccount.com"
PACKAGE = {"executor_image_uri": "e", "package_uris": ["gs://b/p"], "python_module": "m"}
SERVER = {"container_spec": {"image_uri": "server:1"}}
MOUNT = {"server": "10.0.0.2", "path": "/data", "mount_point": "data"}


@dataclass(frozen=True)
class Refusal:
    """One thing that the service refuses.

    Attributes:
        server: What it says, or its rule.
        changes: A candidate that has it.
        words: What is said here instead.
        variable: The job variable that is named.
    """

    server: str
    changes: dict[str, Any]
    words: str
    variable: str = "job_spec"


def pool(**parts: Any) -> dict[str, Any]:
    return {"pool": parts}


def in_spec(**parts: Any) -> dict[str, Any]:
    return {"spec": parts}


REFUSALS = [
    Refusal(
        "Both `accelerator_type` and `accelerator_count` should be specified or none.",
        pool(machine_spec={"accelerator_type": "NVIDIA_TESLA_T4"}),
        "accelerator_count is not set. Set accelerator_count to 1, 2 or 4",
        "accelerator_count",
    ),
    Refusal(
        "Both `accelerator_type` and `accelerator_count` should be specified or none. (reverse)",
        pool(machine_spec={"accelerator_count": 1}),
        "accelerator_type is not set. Set accelerator_type to",
        "accelerator_type",
    ),
    Refusal(
        'Accelerator "NVIDIA_L4" is not supported for machine type "n1-standard-4"',
        pool(machine_spec={"accelerator_type": "NVIDIA_L4", "accelerator_count": 1}),
        "needs a machine of family g2",
        "machine_type",
    ),
    Refusal(
        'The accelerator count "8" is not allowed.',
        pool(
            machine_spec={
                "machine_type": "g2-standard-8",
                "accelerator_type": "NVIDIA_L4",
                "accelerator_count": 8,
            },
        ),
        "accelerator_count",
        "accelerator_count",
    ),
    Refusal(
        "EnvVar names must be C identifiers.",
        {"env": {"MY-NAME": "x"}},
        "env has the name 'MY-NAME'; Vertex AI takes letters, digits and underscores",
        "env",
    ),
    Refusal(
        "Maximum limit of env is 100.",
        {
            "spec": {"worker_pool_specs": [{"container_spec": {"image_uri": IMAGE}}, {}, SERVER]},
            "env": {f"V{number}": "x" for number in range(98)},
        },
        "env has 101 entries; Vertex AI takes 100 for a container, and only the bootstrap",
        "env",
    ),
    Refusal(
        "persistent_resource_id can only contain numbers, lower case letters and hyphens.",
        in_spec(persistent_resource_id="My_Resource"),
        "persistent_resource_id is 'My_Resource', expected lower case",
        "persistent_resource_id",
    ),
    Refusal(
        "Required field is not set. (image_uri)",
        pool(container_spec={"image_uri": "  "}),
        "image is not set (job_spec.worker_pool_specs[0].container_spec.image_uri). Set image",
        "image",
    ),
    Refusal(
        "Invalid image URI.",
        pool(container_spec={"image_uri": "forecast :1"}),
        "image is 'forecast :1'",
        "image",
    ),
    Refusal(
        "Chief spec replica count cannot be greater than 1.",
        pool(container_spec={"image_uri": IMAGE}, replica_count=3),
        "the first pool always has one replica. Set worker_count to 3",
        "worker_count",
    ),
    Refusal(
        "Required field is not set. (worker_pool_specs)",
        in_spec(worker_pool_specs=[]),
        "expected a list with at least one pool",
    ),
    Refusal(
        "tensorboard needs a service_account.",
        in_spec(tensorboard="projects/p/locations/europe-west4/tensorboards/1"),
        "tensorboard is set, for which Vertex AI needs a service account",
        "service_account_name",
    ),
    Refusal(
        "Invalid resource name. (tensorboard)",
        in_spec(tensorboard="my-board", service_account=ACCOUNT),
        "tensorboard is 'my-board', expected projects/P/locations/L/tensorboards/ID",
        "tensorboard",
    ),
    Refusal(
        "Invalid resource name. (experiment)",
        in_spec(experiment="forecasts"),
        "experiment is 'forecasts', expected projects/P/locations/L/metadataStores",
        "experiment",
    ),
    Refusal(
        "Invalid resource name. (kms_key_name)",
        {"encryption_spec": {"kms_key_name": "my-key"}},
        "encryption_spec_key (encryption_spec.kms_key_name) is 'my-key', expected "
        "projects/P/locations/L/keyRings/R/cryptoKeys/K",
        "encryption_spec_key",
    ),
    Refusal(
        "The key needs to be in the same region.",
        {"encryption_spec": {"kms_key_name": "projects/p/locations/us/keyRings/r/cryptoKeys/k"}},
        "in us, but the job runs in europe-west4",
        "encryption_spec_key",
    ),
    Refusal(
        "Network and PSC-I cannot be used together.",
        in_spec(
            network="projects/1/global/networks/n",
            psc_interface_config={"network_attachment": "a"},
        ),
        "network and psc_interface_config are both set",
        "network",
    ),
    Refusal(
        "The project of the network has to be its number.",
        in_spec(network="projects/my-project/global/networks/n"),
        "expected projects/NUMBER/global/networks/NAME",
        "network",
    ),
    Refusal(
        "The DNS name suffix must end with a dot.",
        in_spec(psc_interface_config={"dns_peering_configs": [{"domain": "corp.internal"}]}),
        "does not end with a dot. Write 'corp.internal.'",
        "psc_interface_config",
    ),
    Refusal(
        "output_uri_prefix: a Cloud Storage URI.",
        in_spec(base_output_directory={"output_uri_prefix": "/tmp/x"}),  # noqa: S108 - refused
        "output_uri_prefix is '/tmp/x', expected gs://bucket",
        "base_output_directory",
    ),
    Refusal(
        "Boot disks have 100 to 64,000 GB.",
        pool(container_spec={"image_uri": IMAGE}, disk_spec={"boot_disk_size_gb": 50}),
        "boot_disk_size_gb is 50; Vertex AI takes 100 to 64000 GB",
        "boot_disk_size_gb",
    ),
    Refusal(
        "Required field is not set. (nfs mount)",
        pool(container_spec={"image_uri": IMAGE}, nfs_mounts=[{**MOUNT, "mount_point": ""}]),
        "nfs_mounts[0] has no mount_point. A mount needs server, path, mount_point",
    ),
    Refusal(
        "Required field is not set. (python_module)",
        in_spec(worker_pool_specs=[{"python_package_spec": {**PACKAGE, "python_module": ""}}]),
        "python_package_spec has no python_module",
    ),
    Refusal(
        "The maximum number of package URIs is 100.",
        in_spec(
            worker_pool_specs=[{"python_package_spec": {**PACKAGE, "package_uris": ["u"] * 101}}],
        ),
        "package_uris has 101 entries; Vertex AI takes 100",
    ),
    Refusal(
        "max_wait_duration is only for FLEX_START.",
        in_spec(scheduling={"max_wait_duration": "60s"}),
        "max_wait_duration is only taken with FLEX_START",
        "scheduling",
    ),
    Refusal(
        "A TPU job has one replica.",
        {"pool": {"machine_spec": {"machine_type": "ct5lp-hightpu-4t"}}, "worker_count": 2},
        "Set worker_count to 1",
        "worker_count",
    ),
    Refusal(
        "exec: argument list too long (the kernel's)",
        {"env": {"BIG": "x" * 140_000}},
        "env BIG has 140004 bytes with its name; Linux takes 131071",
        "env",
    ),
    Refusal(
        "exec: argument list too long (command)",
        pool(container_spec={"image_uri": IMAGE, "args": ["x" * 140_000]}),
        "command has an argument of 140000 bytes; Linux takes 131071",
        "command",
    ),
    Refusal(
        "CustomJobs are regional.",
        {"location": "global"},
        "CustomJobs run in single regions only",
        "region",
    ),
    Refusal(
        "Unknown name (ignored without a word by other workers)",
        in_spec(netwrk="x"),
        "job_spec has no field 'netwrk'; the closest is 'network'",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.server[:60])
def test_it_is_refused_here_first_in_one_line_that_names_the_variable(
    a_plan: APlan, refusal: Refusal
) -> None:
    changes = dict(refusal.changes)
    if "pool" in changes and "container_spec" not in changes["pool"]:
        changes["pool"] = {**changes["pool"], "container_spec": {"image_uri": IMAGE}}
    with pytest.raises(PlanError, match=re.escape(refusal.words)) as caught:
        a_plan(**changes)
    assert caught.value.variable == refusal.variable
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_disk_type_that_is_not_known_is_a_warning(a_plan: APlan) -> None:
    parts = {"container_spec": {"image_uri": IMAGE}, "disk_spec": {"boot_disk_type": "hyper-x"}}
    assert "'hyper-x' is none of pd-ssd" in a_plan(pool=parts).warnings[0]


ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=150)
PRINTED = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    name=ANY_TEXT,
    labels=st.dictionaries(ANY_TEXT, ANY_TEXT | st.none() | st.integers(), max_size=100),
    env=st.dictionaries(NAMES, PRINTED, max_size=130),
    setup=st.lists(PRINTED, max_size=2),
    workers=st.integers(min_value=1, max_value=5),
)
def test_what_is_planned_is_never_refused_for_its_form(
    a_plan: APlan,
    name: str,
    labels: dict[str, Any],
    env: dict[str, str],
    setup: list[str],
    workers: int,
) -> None:
    """Any Unicode, any length, None and numbers: the emulator's rules are another's reading."""
    plan = a_plan(name=name, labels=labels, env=env, setup_command=setup, worker_count=workers)
    check_custom_job(plan.request.custom_job)
    assert plan.display_name.isprintable() or not name.isprintable()
    assert plan.display_name.splitlines() == [plan.display_name]
