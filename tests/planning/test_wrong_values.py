"""Values that Vertex AI would refuse, or that say nothing, are refused with the right fix.

Beside `test_refusals`, which holds the service's own wordings.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.plan import JobPlan
from prefect_vertex.planning.spec import Candidate

APlan = Callable[..., JobPlan]

IMAGE = "europe-docker.pkg.dev/p/flows/forecast:1"
CONTAINER = {"image_uri": IMAGE}
POOL = {"container_spec": CONTAINER}
PACKAGE = {"executor_image_uri": "https://x/i", "package_uris": ["gs://b/p"], "python_module": "m"}
T4 = {"accelerator_type": "NVIDIA_TESLA_T4", "accelerator_count": 1}


def add(path: str, value: object) -> dict[str, Any]:
    return {"job_spec_patch": ({"op": "add", "path": path, "value": value},)}


def pools(*others: object) -> dict[str, Any]:
    return {"spec": {"worker_pool_specs": [POOL, *others]}}


def machine(**parts: object) -> dict[str, Any]:
    return {"pool": {**POOL, "machine_spec": parts}}


def image(name: str) -> dict[str, Any]:
    return {"pool": {"container_spec": {"image_uri": name}}}


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    # what: the change, the message (with its fix), the variable
    "a timeout that no request can say": (
        {"spec": {"scheduling": {"timeout": 400_000_000_000}}},
        "scheduling.timeout is 400000000000, expected a duration of at most 10,000 years. Write",
        "timeout",
    ),
    "a waiting time that no request can say": (
        {"spec": {"scheduling": {"strategy": "FLEX_START", "max_wait_duration": "9e9s"}}},
        "max_wait_duration is '9e9s', expected a duration",
        "max_wait_duration",
    ),
    "more workers than a request can say": (
        {"worker_count": 2**63 + 1},
        "worker_count is 9223372036854775809, which is more than a request can say. Set",
        "worker_count",
    ),
    "more replicas than a request can say": (
        pools({**POOL, "replica_count": 2**63}),
        "worker_pool_specs[1].replica_count is 9223372036854775808, which is more",
        "worker_count",
    ),
    "a number that does not fit a field": (
        add("/job_spec/worker_pool_specs/0/disk_spec", {"boot_disk_size_gb": 2**40}),
        "boot_disk_size_gb is 1099511627776; Vertex AI takes 100 to 64000 GB. Leave it out",
        "boot_disk_size_gb",
    ),
    "an enum's number that does not fit": (
        {"spec": {"scheduling": {"strategy": 2**40}}},
        "job_spec.scheduling.strategy is 1099511627776, expected a whole number from",
        "strategy",
    ),
    "a superscript that isdigit takes": (
        {"spec": {"scheduling": {"strategy": "²"}}},
        "scheduling.strategy is '²', which Vertex AI does not know",
        "strategy",
    ),
    "an accelerator's superscript": (
        machine(accelerator_type="²", accelerator_count=1),
        "accelerator_type is '²', which Vertex AI does not know",
        "accelerator_type",
    ),
    "no boot disk at all": (
        {"pool": {**POOL, "disk_spec": {"boot_disk_size_gb": 0}}},
        "boot_disk_size_gb is 0; Vertex AI takes 100 to 64000 GB. Leave it out",
        "boot_disk_size_gb",
    ),
    "the word default, by a patch": (
        add("/job_spec/service_account", "default"),
        "service_account_name (job_spec.service_account) is 'default', which is not a service",
        "service_account_name",
    ),
    "IAM's prefix, by a patch": (
        add("/job_spec/service_account", "serviceAccount:a@p.iam.gserviceaccount.com"),
        "Leave out `serviceAccount:`",
        "service_account_name",
    ),
    "an account with blanks round it": (
        {"spec": {"service_account": " a@p.iam.gserviceaccount.com "}},
        "is ' a@p.iam.gserviceaccount.com ', which is not a service account's address",
        "service_account_name",
    ),
    "a secret whose reader a patch removes": (
        {
            "spec": {"service_account": "a@p.iam.gserviceaccount.com"},
            "api_secrets": {"PREFECT_API_KEY": "projects/p/secrets/s/versions/1"},
            "job_spec_patch": ({"op": "remove", "path": "/job_spec/service_account"},),
        },
        "prefect_api_key_secret is set, for which Vertex AI needs a service account. Set",
        "service_account_name",
    ),
    "no command at all": (
        {"command": ()},
        "command is not set, and job_spec.worker_pool_specs[0].container_spec has none. Leave",
        "command",
    ),
    "a command without a program": (
        {"pool": {"container_spec": {**CONTAINER, "command": ["", "x"]}}},
        "container_spec.command is ['', 'x'], which names no program. Leave command out",
        "command",
    ),
    "a fifth pool": (
        pools({}, {}, {}, {"replica_count": 1}),
        "has a pool 4; Vertex AI has 4, by position: the primary replica, its workers",
        "worker_pools",
    ),
    "a fifth pool, by a patch": (
        add("/job_spec/worker_pool_specs", [POOL, {}, {}, {}, POOL]),
        "has a pool 4; Vertex AI has 4",
        "job_spec_patch",
    ),
    "no primary": (
        {"pool": {**POOL, "replica_count": 0}},
        "the first pool always has one replica. Leave replica_count out; worker_count says",
        "worker_count",
    ),
    "fewer than no primaries": (
        {"pool": {**POOL, "replica_count": -1}},
        "the first pool always has one replica. Leave replica_count out; worker_count says",
        "worker_count",
    ),
    "as many primaries as workers": (
        {"pool": {**POOL, "replica_count": 3}, "worker_count": 3},
        "Leave replica_count out: worker_count is 3 already, and fills the second pool.",
        "worker_count",
    ),
    "several primaries, by a patch": (
        add("/job_spec/worker_pool_specs/0/replica_count", 3),
        "the first pool always has one replica. Leave replica_count out;",
        "job_spec_patch",
    ),
    "a name that only looks like a region's": (
        image("{zone}-docker.pkg.dev/p/i:1"),
        "which is not the name of an image. Only {region} is replaced in it",
        "image",
    ),
    "a region in a shell's way": (
        image("${region}/i"),
        "{region} is replaced where no $ and no other brace stands beside it.",
        "image",
    ),
    "a shell's variable in an image": (image("${A}/i"), "Only {region} is replaced", "image"),
    "an image with a scheme": (image("https://x/i"), "Leave the scheme out", "image"),
    "an image with two tags": (image("a:b:c"), "Write REGISTRY/REPOSITORY/NAME:TAG", "image"),
    "an image in upper case": (image("europe/Forecast:1"), "in lower case", "image"),
    "a package's image": (
        {"spec": {"worker_pool_specs": [{"python_package_spec": PACKAGE}]}},
        "executor_image_uri), which is not the name of an image",
        "image",
    ),
    "a placeholder for a machine": (
        machine(machine_type="{{ machine }}"),
        "machine_type is '{{ machine }}', which is not the name of a machine type. The closest",
        "machine_type",
    ),
    "a machine by its full name": (
        machine(machine_type="projects/p/zones/us/machineTypes/n1-standard-4"),
        "which is not the name of a machine type",
        "machine_type",
    ),
    "a topology without TPUs": (
        machine(machine_type="n1-standard-4", tpu_topology="2x2"),
        "tpu_topology is set, but machine_type n1-standard-4 is no TPU host. Set machine_type",
        "machine_type",
    ),
    "an id of 64 characters": (
        {"spec": {"persistent_resource_id": "a" * 64}},
        "hyphens, at most 63, a letter first",
        "persistent_resource_id",
    ),
    "an id that ends with a new line": (
        {"spec": {"persistent_resource_id": "a\n"}},
        "persistent_resource_id is 'a\\n', expected lower case",
        "persistent_resource_id",
    ),
    "a bucket's name in upper case": (
        {"spec": {"base_output_directory": {"output_uri_prefix": "gs://B ad/x"}}},
        "output_uri_prefix is 'gs://B ad/x', expected gs://bucket or gs://bucket/folder",
        "base_output_directory",
    ),
    "a null in a list": (
        {"spec": {"network": "projects/1/global/networks/n", "reserved_ip_ranges": [None]}},
        "reserved_ip_ranges[0] is None, expected text",
        "reserved_ip_ranges",
    ),
    "the machine of another pool": (
        pools(
            {
                "replica_count": 1,
                "machine_spec": {"machine_type": "n1-standard-4", "accelerator_count": 1},
            }
        ),
        "job_spec.worker_pool_specs[1]: accelerator_count is 1, but accelerator_type is not set",
        "accelerator_type",
    ),
    "a key without its variable's name": (
        {"encryption_spec": {"kms_key_name": 3}},
        "encryption_spec_key (custom_job.encryption_spec.kms_key_name) is 3, expected text",
        "encryption_spec_key",
    ),
}


@pytest.mark.parametrize(("change", "words", "variable"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused_with_its_variable_and_what_to_do(
    a_plan: APlan, change: dict[str, Any], words: str, variable: str
) -> None:
    with pytest.raises(PlanError, match=re.escape(words)) as caught:
        a_plan(**change)
    assert caught.value.variable == variable
    assert "\n" not in str(caught.value)


TAKEN = ("i:1", "server:1", "a/b_c/d--e.f:T.1-x", "localhost:5000/i", "gcr.io/example.com/p/i:1")
DIGEST = f"us-docker.pkg.dev/p/flows/i:1@sha256:{'0' * 64}"


@pytest.mark.parametrize("name", [*TAKEN, DIGEST, "[::1]:5000/i"])
def test_an_image_that_a_registry_can_have_is_taken(a_plan: APlan, name: str) -> None:
    (pool,) = a_plan(**image(name)).request.custom_job.job_spec.worker_pool_specs
    assert pool.container_spec.image_uri == name


SUSPICIOUS: dict[str, tuple[dict[str, Any], str]] = {
    "many replicas": ({"worker_count": 100_001}, "The job has 100001 replicas: look at worker"),
    "workers of whom there are none": (
        pools({"machine_spec": {"machine_type": "e2-standard-4"}}),
        "worker_count is 1, which leaves no replica for worker_pools[1] (its workers): it is left",
    ),
    "a server that runs the flow": (
        pools({}, {"replica_count": 1}),
        "worker_pools[2] (parameter or reduction servers) brings neither an image nor a command",
    ),
    "a server with the first pool's GPU": (
        {
            "spec": {
                "worker_pool_specs": [
                    {**POOL, "machine_spec": {"machine_type": "n1-standard-4", **T4}},
                    {},
                    {"container_spec": {"image_uri": "server:1"}},
                ]
            }
        },
        "takes the machine of the first pool, with its accelerator: set its machine_spec",
    ),
    "a person's account": (
        {"spec": {"service_account": "me@gmail.com"}},
        "is me@gmail.com, but addresses of service accounts end with .gserviceaccount.com",
    ),
    "a strategy newer than the client": (
        {"spec": {"scheduling": {"strategy": 99}}},
        "job_spec.scheduling.strategy is 99, which the installed client does not know",
    ),
    "a TensorBoard that nothing is written for": (
        {
            "spec": {
                "tensorboard": "projects/p/locations/europe-west4/tensorboards/1",
                "service_account": "a@p.iam.gserviceaccount.com",
            }
        },
        "tensorboard is set without base_output_directory",
    ),
    "a patch that takes the API's address away": (
        {
            "env": {"PREFECT_API_URL": "https://prefect.example/api"},
            **add("/job_spec/worker_pool_specs/0/container_spec/env", [{"name": "A"}]),
        },
        "has no PREFECT_API_URL in env: its code cannot reach the Prefect API",
    ),
    "a label that is the worker's": (
        {"labels": {"prefect.io/flow-run-id": "mine"}},
        "label 'prefect.io/flow-run-id' is left out: the worker sets it",
    ),
    "a machine of another pool": (
        pools({"replica_count": 1, "machine_spec": {"machine_type": "z9-standard-4"}}),
        "job_spec.worker_pool_specs[1]: machine_type z9-standard-4 is not in the table",
    ),
}


@pytest.mark.parametrize(("change", "words"), SUSPICIOUS.values(), ids=SUSPICIOUS)
def test_it_is_sent_with_a_warning(a_plan: APlan, change: dict[str, Any], words: str) -> None:
    plan = a_plan(**change)
    assert [line for line in plan.warnings if words in line]
    assert a_plan().warnings == ()


def test_a_patch_that_removes_the_command_leaves_the_runs_own(a_plan: APlan) -> None:
    """Pools 0 and 1 run `command` unless they have one."""
    path = "/job_spec/worker_pool_specs/0/container_spec/command"
    plan = a_plan(job_spec_patch=({"op": "remove", "path": path},))
    assert plan.request == a_plan().request


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_machine_is_none(a_plan: APlan, blank: str) -> None:
    spec = {"machine_type": blank, "accelerator_type": blank}
    disk = {"boot_disk_type": blank}
    plan = a_plan(pool={**POOL, "machine_spec": spec, "disk_spec": disk})
    assert plan == a_plan(candidate=plan.candidate)
    (pool,) = plan.request.custom_job.job_spec.worker_pool_specs
    assert pool.machine_spec.machine_type == "n1-standard-4"
    assert plan.warnings == ()


def test_what_the_table_excludes_is_sent_if_the_user_wants(
    a_candidate: Callable[..., Candidate], a_plan: APlan
) -> None:
    candidate = a_candidate(**machine(machine_type="N1-NEW"), validate_hardware="warn")
    plan = a_plan(candidate=candidate)
    (pool,) = plan.request.custom_job.job_spec.worker_pool_specs
    assert pool.machine_spec.machine_type == "N1-NEW"
    assert "It is sent because validate_hardware is warn" in plan.warnings[0]
