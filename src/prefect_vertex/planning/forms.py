"""What the service refuses for its form alone: resource names, required parts, sizes.

Sources: google.cloud.aiplatform_v1 2.7.0 (formats and required fields in its documentation) and
refusals seen in public reports, read 2026-11. A rule stands here only where a form is documented;
what several parts must be together is judged in `placement`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.fields import whole_number
from prefect_vertex.planning.pools import POOLS_PATH
from prefect_vertex.planning.spelling import shown

MAX_PACKAGE_URIS = 100
BOOT_DISK_GB = (100, 64_000)
BOOT_DISK_TYPES = ("pd-ssd", "pd-standard", "hyperdisk-balanced")

_CONTEXT = "projects/P/locations/L/metadataStores/default/contexts/NAME"
_IN_CONTEXT = r"projects/[^/]+/locations/[^/]+/metadataStores/[^/]+/contexts/[^/]+"
_RESOURCES = {
    # field: its form, how a message shows that, the job variable
    "tensorboard": (
        r"projects/[^/]+/locations/[^/]+/tensorboards/[^/]+",
        "projects/P/locations/L/tensorboards/ID",
        "tensorboard",
    ),
    "experiment": (_IN_CONTEXT, _CONTEXT, "experiment"),
    "experiment_run": (_IN_CONTEXT, _CONTEXT, "job_spec"),
}
_KMS_KEY = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+")
_REQUIRED = {
    "nfs_mounts": ("server", "path", "mount_point"),
    "lustre_mounts": ("instance_ip", "volume_handle", "filesystem", "mount_point"),
}
_OF_A_PACKAGE = ("executor_image_uri", "package_uris", "python_module")


def check_job_forms(job_spec: Mapping[str, Any], encryption_spec: Mapping[str, Any]) -> None:
    """Refuse what has not the documented form; `check_pool_forms` judges the pools.

    Raises:
        PlanError: Naming the field, what it is, and what it should be.
    """
    for name, (form, expected, variable) in _RESOURCES.items():
        value = job_spec.get(name)
        if isinstance(value, str) and value and not re.fullmatch(form, value):
            raise _wrong(f"job_spec.{name}", value, expected, variable)
    _check_peerings(job_spec.get("psc_interface_config"))
    _check_output(job_spec.get("base_output_directory"))
    key = encryption_spec.get("kms_key_name")
    if isinstance(key, str) and not _KMS_KEY.fullmatch(key):
        expected = "projects/P/locations/L/keyRings/R/cryptoKeys/K"
        raise _wrong("encryption_spec.kms_key_name", key, expected, "encryption_spec_key")


def check_pool_forms(pool: Mapping[str, Any], index: int) -> tuple[str, ...]:
    """Refuse a pool of which a part has not the documented form.

    Returns:
        A warning for a boot disk type that is not known, which may be only newer.

    Raises:
        PlanError: Naming the field, what it is, and what it should be.
    """
    path = f"{POOLS_PATH}[{index}]"
    for field, names in _REQUIRED.items():
        mounts = pool.get(field)
        for place, mount in enumerate(mounts if isinstance(mounts, Sequence) else ()):
            missing = list(_missing(mount, names))
            if missing:
                raise PlanError(
                    f"{path}.{field}[{place}] has no {missing[0]}.",
                    variable="job_spec",
                    hint=f"A mount needs {', '.join(names)}.",
                )
    package = pool.get("python_package_spec", {})
    missing = list(_missing(package, _OF_A_PACKAGE)) if package else []
    if missing:
        raise PlanError(
            f"{path}.python_package_spec has no {missing[0]}.",
            variable="job_spec",
            hint=f"A Python package needs {', '.join(_OF_A_PACKAGE)}.",
        )
    uris = package.get("package_uris", ())
    if len(uris) > MAX_PACKAGE_URIS:
        raise PlanError(
            f"{path}.python_package_spec.package_uris has {len(uris)} entries; Vertex AI takes "
            f"{MAX_PACKAGE_URIS}.",
            variable="job_spec",
        )
    return _check_disk(pool.get("disk_spec", {}), path)


def check_image(value: object, path: str) -> None:
    """Refuse an image that is not set, or that no registry could have.

    Raises:
        PlanError: It is missing, blank, or holds white space or control characters.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        raise PlanError(
            f"image is not set ({path}).",
            variable="image",
            hint="Set image to one that Vertex AI can pull and that has Prefect in it.",
        )
    if isinstance(value, str) and re.search(r"[^\x21-\x7e]", value):
        raise PlanError(
            f"image is {shown(value)} ({path}), which holds a blank or a character that no image's "
            "name has.",
            variable="image",
            hint="Write REGISTRY/REPOSITORY/NAME:TAG without spaces.",
        )


def _check_disk(disk: Mapping[str, Any], path: str) -> tuple[str, ...]:
    size = disk.get("boot_disk_size_gb")
    smallest, largest = BOOT_DISK_GB
    if size is not None:
        number = whole_number(size, f"{path}.disk_spec.boot_disk_size_gb")
        # 0 is how a message says that a field is not set.
        if number and not smallest <= number <= largest:
            raise PlanError(
                f"boot_disk_size_gb is {number}; Vertex AI takes {smallest} to {largest} GB.",
                variable="boot_disk_size_gb",
            )
    kind = disk.get("boot_disk_type")
    if isinstance(kind, str) and kind and kind not in BOOT_DISK_TYPES:
        known = ", ".join(BOOT_DISK_TYPES)
        return (f"boot_disk_type {kind} is none of {known} (2026-11); it is sent as it is.",)
    return ()


def _check_peerings(config: object) -> None:
    peerings = config.get("dns_peering_configs") if isinstance(config, Mapping) else None
    for index, peering in enumerate(peerings if isinstance(peerings, Sequence) else ()):
        domain = peering.get("domain") if isinstance(peering, Mapping) else None
        if isinstance(domain, str) and not domain.endswith("."):
            raise PlanError(
                f"psc_interface_config.dns_peering_configs[{index}].domain is {shown(domain)}, "
                "which does not end with a dot.",
                variable="psc_interface_config",
                hint=f"Write {domain + '.'!r}.",
            )


def _check_output(output: object) -> None:
    prefix = output.get("output_uri_prefix") if isinstance(output, Mapping) else None
    if isinstance(prefix, str) and not re.fullmatch(r"gs://[^/]+(/.*)?", prefix):
        expected = "gs://bucket or gs://bucket/folder"
        path = "job_spec.base_output_directory.output_uri_prefix"
        raise _wrong(path, prefix, expected, "base_output_directory")


def _missing(given: object, names: Sequence[str]) -> Iterator[str]:
    if isinstance(given, Mapping):
        yield from (name for name in names if not given.get(name))


def _wrong(path: str, value: object, expected: str, variable: str) -> PlanError:
    return PlanError(f"{path} is {shown(value, 120)}, expected {expected}.", variable=variable)
