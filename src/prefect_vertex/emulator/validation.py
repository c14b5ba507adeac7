"""What CreateCustomJob refuses, in the order in which the service looks.

First every field error at once, as one aggregated list; then machine and accelerator, one plain
sentence.  Sources: README.md; guessed wordings are marked in `wordings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import grpc
from google.cloud.aiplatform_v1.types import (
    AcceleratorType,
    ContainerSpec,
    CustomJob,
    EnvVar,
    MachineSpec,
    PythonPackageSpec,
    WorkerPoolSpec,
)

from prefect_vertex.emulator import wordings
from prefect_vertex.emulator.api_error import ApiError, invalid_argument
from prefect_vertex.emulator.machines import ACCELERATORS_OF

FieldError = tuple[str, str]

MAX_DISPLAY_NAME: Final = 128
MAX_LABELS: Final = 64
MAX_LABEL_CHARACTERS: Final = 63
MAX_LABEL_BYTES: Final = 127
MAX_ENV_ENTRIES: Final = 100
# Linux's MAX_ARG_STRLEN is 32 pages, the closing NUL included.
MAX_STRING_BYTES: Final = 131_071

# An empty entry keeps the place of a pool that a job does without.
_SKIPPED: Final = WorkerPoolSpec()
_C_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PERSISTENT_RESOURCE_ID: Final = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")


def check_custom_job(job: CustomJob) -> None:
    """Raise `ApiError` when the service would not create this job."""
    errors = list(_field_errors(job))
    if errors:
        raise invalid_argument(wordings.found_errors(errors))
    pools = [pool for pool in job.job_spec.worker_pool_specs if pool != _SKIPPED]
    for pool in pools:
        _check_machine(pool.machine_spec)
    if any("python_package_spec" in pool for pool in pools):
        raise ApiError(
            grpc.StatusCode.UNIMPLEMENTED,
            "The emulator does not run python_package_spec; use container_spec.",
        )


def _field_errors(job: CustomJob) -> Iterator[FieldError]:
    if not job.display_name:
        yield "custom_job.display_name", wordings.REQUIRED_INFERRED
    elif len(job.display_name) > MAX_DISPLAY_NAME:
        yield "custom_job.display_name", wordings.DISPLAY_NAME_LENGTH_INFERRED
    if not _are_labels_legal(job.labels):
        yield "custom_job.labels", wordings.LABELS
    resource_id = job.job_spec.persistent_resource_id
    if resource_id and not _PERSISTENT_RESOURCE_ID.fullmatch(resource_id):
        yield "job_spec.persistent_resource_id", wordings.PERSISTENT_RESOURCE_ID
    pools = job.job_spec.worker_pool_specs
    if not pools or pools[0] == _SKIPPED:
        yield "job_spec.worker_pool_specs", wordings.REQUIRED_INFERRED
    for position, pool in enumerate(pools):
        if pool != _SKIPPED:
            yield from _pool_errors(f"job_spec.worker_pool_specs[{position}]", position, pool)


def _pool_errors(path: str, position: int, pool: WorkerPoolSpec) -> Iterator[FieldError]:
    if position == 0 and pool.replica_count != 1:
        yield f"{path}.replica_count", wordings.PRIMARY_REPLICA_COUNT_INFERRED
    elif pool.replica_count < 1:
        yield f"{path}.replica_count", wordings.REPLICA_COUNT_INFERRED
    if not pool.machine_spec.machine_type:
        yield f"{path}.machine_spec.machine_type", wordings.REQUIRED_INFERRED
    has_type = pool.machine_spec.accelerator_type != AcceleratorType.ACCELERATOR_TYPE_UNSPECIFIED
    if has_type != (pool.machine_spec.accelerator_count > 0):
        yield f"{path}.machine_spec.accelerator_type", wordings.ACCELERATOR_PAIR
    # Both are members of one oneof, so that at most one can be there.
    if "container_spec" in pool:
        yield from _container_errors(f"{path}.container_spec", pool.container_spec)
    elif "python_package_spec" in pool:
        yield from _package_errors(f"{path}.python_package_spec", pool.python_package_spec)
    else:
        yield path, wordings.TASK_INFERRED


def _container_errors(path: str, container: ContainerSpec) -> Iterator[FieldError]:
    if not container.image_uri:
        yield f"{path}.image_uri", wordings.REQUIRED_INFERRED
    for name, strings in (("command", container.command), ("args", container.args)):
        for position, text in enumerate(strings):
            yield from _string_errors(f"{path}.{name}[{position}]", text)
    yield from _env_errors(f"{path}.env", container.env)


def _package_errors(path: str, package: PythonPackageSpec) -> Iterator[FieldError]:
    for name in ("executor_image_uri", "package_uris", "python_module"):
        if not getattr(package, name):
            yield f"{path}.{name}", wordings.REQUIRED_INFERRED
    yield from _env_errors(f"{path}.env", package.env)


def _env_errors(path: str, entries: Sequence[EnvVar]) -> Iterator[FieldError]:
    if len(entries) > MAX_ENV_ENTRIES:
        yield path, wordings.ENV_COUNT_INFERRED
    if len({entry.name for entry in entries}) < len(entries):
        yield path, wordings.ENV_NAMES_UNIQUE_INFERRED
    for position, entry in enumerate(entries):
        if not _C_IDENTIFIER.fullmatch(entry.name):
            yield f"{path}[{position}].name", wordings.ENV_NAME_INFERRED
        yield from _string_errors(f"{path}[{position}].value", f"{entry.name}={entry.value}")


def _string_errors(path: str, text: str) -> Iterator[FieldError]:
    if len(text.encode()) > MAX_STRING_BYTES:
        yield path, wordings.STRING_TOO_LONG_INFERRED
    if "\0" in text:
        yield path, wordings.NUL_BYTE_INFERRED


def _are_labels_legal(labels: Mapping[str, str]) -> bool:
    if len(labels) > MAX_LABELS:
        return False
    return all(
        key[:1].isalnum() and _is_label_text_legal(key) and _is_label_text_legal(value)
        for key, value in labels.items()
    )


def _is_label_text_legal(text: str) -> bool:
    if len(text) > MAX_LABEL_CHARACTERS or len(text.encode()) > MAX_LABEL_BYTES:
        return False
    # International letters are allowed; most have no case, so lower() leaves them as they are.
    return all(c in "-_" or (c.isalnum() and c == c.lower()) for c in text)


def _check_machine(machine: MachineSpec) -> None:
    offered = ACCELERATORS_OF.get(machine.machine_type)
    if offered is None:
        raise invalid_argument(wordings.machine_type_not_supported_inferred(machine.machine_type))
    if not machine.accelerator_count:
        return
    # A number that this client library has no name for arrives as a plain int.
    accelerator = getattr(machine.accelerator_type, "name", str(machine.accelerator_type))
    allowed = offered.get(accelerator)
    if allowed is None:
        raise invalid_argument(
            wordings.accelerator_not_supported(accelerator, machine.machine_type)
        )
    if machine.accelerator_count not in allowed:
        raise invalid_argument(
            wordings.accelerator_count_not_allowed(
                accelerator, machine.machine_type, machine.accelerator_count, allowed
            )
        )
