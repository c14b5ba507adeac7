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
from prefect_vertex.planning.fields import path_of, whole_number
from prefect_vertex.planning.replicas import POOLS_PATH
from prefect_vertex.planning.spelling import shown

FOLDER = "gs://bucket or gs://bucket/folder"
"""How a message shows what a folder in Cloud Storage looks like; bucket names are lower case."""

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
# https://github.com/distribution/reference (regexp.go), read 2026-11: what registries and runtimes
# take as the name of an image.
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9+._-]*:[0-9A-Fa-f]{32,})?"
)
_ADDRESS = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
# https://cloud.google.com/storage/docs/buckets#naming, read 2026-11, but for its lengths.
_FOLDER = re.compile(r"gs://[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?(?:/.*)?")
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


def check_job_parts(job_spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Judge the parts of a CustomJobSpec, as it will be sent, that may only be suspicious.

    Raises:
        PlanError: The service account is none.
    """
    warnings: list[str] = []
    if account := job_spec.get("service_account"):
        warnings += check_service_account(account, "job_spec.service_account")
    if job_spec.get("tensorboard") and not job_spec.get("base_output_directory"):
        warnings.append(
            "tensorboard is set without base_output_directory: Vertex AI uploads only what is "
            "written there."
        )
    return tuple(warnings)


def is_folder(text: str) -> bool:
    """Whether a text names a bucket of Cloud Storage, or a folder in one."""
    return _FOLDER.fullmatch(text) is not None


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
    if package:
        check_image(package["executor_image_uri"], f"{path}.python_package_spec.executor_image_uri")
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
        PlanError: It is missing or blank, or its name is not of the form that registries take.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        raise PlanError(
            f"image is not set ({path}).",
            variable="image",
            hint="Set image to one that Vertex AI can pull and that has Prefect in it.",
        )
    if isinstance(value, str) and not _IMAGE.fullmatch(value):
        raise PlanError(
            f"image is {shown(value, 120)} ({path}), which is not the name of an image.",
            variable="image",
            hint=_image_hint(value),
        )


def _image_hint(image: str) -> str:
    if "://" in image:
        return "Leave the scheme out: REGISTRY/REPOSITORY/NAME:TAG."
    if "{region}" in image:
        return "{region} is replaced where no $ and no other brace stands beside it."
    if "{" in image:
        return "Only {region} is replaced in it; write REGISTRY/REPOSITORY/NAME:TAG."
    if re.search(r"[^\x21-\x7e]", image):
        return "Write REGISTRY/REPOSITORY/NAME:TAG without blanks or other alphabets."
    return "Write REGISTRY/REPOSITORY/NAME:TAG, all but the tag in lower case."


def check_service_account(account: object, path: str = "service_account_name") -> tuple[str, ...]:
    """Judge the account that a job is to run as.

    Args:
        account: Its address, or what was written for it; not empty.
        path: Where it stands, for messages.

    Returns:
        A warning if no service account of Google Cloud has such an address.

    Raises:
        PlanError: It is no e-mail address, or has something around it.
    """
    where = path_of(path, "service_account_name")
    if not isinstance(account, str) or not _ADDRESS.fullmatch(account):
        raise PlanError(
            f"{where} is {shown(account)}, which is not a service account's address.",
            variable="service_account_name",
            hint=(
                "Leave out `serviceAccount:`, which belongs to IAM."
                if str(account).strip().startswith("serviceAccount:")
                else "It looks like name@project.iam.gserviceaccount.com; leave it empty for none."
            ),
        )
    if not account.endswith(".gserviceaccount.com"):
        line = (
            f"{where} is {account}, but addresses of service accounts end with "
            ".gserviceaccount.com: Vertex AI refuses a person's."
        )
        return (line,)
    return ()


def _check_disk(disk: Mapping[str, Any], path: str) -> tuple[str, ...]:
    size = disk.get("boot_disk_size_gb")
    smallest, largest = BOOT_DISK_GB
    if size is not None:
        number = whole_number(size, f"{path}.disk_spec.boot_disk_size_gb")
        if not smallest <= number <= largest:
            raise PlanError(
                f"boot_disk_size_gb is {number}; Vertex AI takes {smallest} to {largest} GB.",
                variable="boot_disk_size_gb",
                hint="Leave it out for Vertex AI's own choice.",
            )
    kind = disk.get("boot_disk_type")
    if isinstance(kind, str) and kind and kind not in BOOT_DISK_TYPES:
        known = ", ".join(BOOT_DISK_TYPES)
        return (f"boot_disk_type {shown(kind)} is none of {known} (2026-11); it is sent as it is.",)
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
    if isinstance(prefix, str) and not is_folder(prefix):
        expected = FOLDER
        path = "job_spec.base_output_directory.output_uri_prefix"
        raise _wrong(path, prefix, expected, "base_output_directory")


def _missing(given: object, names: Sequence[str]) -> Iterator[str]:
    if isinstance(given, Mapping):
        yield from (name for name in names if not given.get(name))


def _wrong(path: str, value: object, expected: str, variable: str) -> PlanError:
    return PlanError(
        f"{path_of(path, variable)} is {shown(value, 120)}, expected {expected}.",
        variable=variable,
    )
