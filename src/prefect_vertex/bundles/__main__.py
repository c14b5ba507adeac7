"""`python -m prefect_vertex.bundles POOL --bucket BUCKET`: let a work pool store bundles there.

`prefect-vertex bundle-storage` does the same.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prefect_vertex.bundles.storage import BundleStorage, ending
from prefect_vertex.errors import SetupError
from prefect_vertex.planning.addresses import shown_url, told

if TYPE_CHECKING:
    from prefect.client.schemas.objects import WorkPoolStorageConfiguration


def storage_configuration(
    bucket: str,
    *,
    upload_launcher: Sequence[str],
    execution_launcher: Sequence[str],
) -> WorkPoolStorageConfiguration:
    """What a work pool's record says of its bundle storage.

    Args:
        bucket: Bucket name, or `gs://bucket/prefix`.
        upload_launcher: What starts Python on the machine that submits.
        execution_launcher: The same in the container.
    """
    from prefect.client.schemas.objects import WorkPoolStorageConfiguration

    def step(name: str, launcher: Sequence[str]) -> dict[str, Any]:
        options = {"bucket": bucket, "launcher": list(launcher)}
        return {f"prefect_vertex.bundles.{name}": options}

    return WorkPoolStorageConfiguration(
        bundle_upload_step=step("upload", upload_launcher),
        bundle_execution_step=step("execute", execution_launcher),
    )


async def configure(pool: str, configuration: WorkPoolStorageConfiguration) -> None:
    """Write it to a work pool; where results are kept stays as it is.

    Raises:
        SetupError: There is no such work pool, or it is of another type.
    """
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolUpdate
    from prefect.exceptions import ObjectNotFound

    from prefect_vertex.runs.launchers import about_missing_pool, check_pool

    async with get_client() as client:
        try:
            found = await client.read_work_pool(pool)
            check_pool(found)
            block = found.storage_configuration.default_result_storage_block_id
            update = configuration.model_copy(update={"default_result_storage_block_id": block})
            await client.update_work_pool(pool, WorkPoolUpdate(storage_configuration=update))
        except ObjectNotFound as error:
            raise about_missing_pool(pool) from error
        except httpx.HTTPError as error:
            raise SetupError(
                f"Cannot change work pool {pool!r}: the Prefect API at "
                f"{shown_url(str(client.api_url))} said {type(error).__name__}: {told(error)}.",
                hint="Check PREFECT_API_URL and the key.",
            ) from error


def set_storage(
    pool: str,
    bucket: str,
    *,
    upload_launcher: Sequence[str],
    execution_launcher: Sequence[str],
) -> None:
    """Let a work pool store bundles in a bucket, and say so. The bucket is not asked.

    Raises:
        CodeStoreError: It names no bucket.
        SetupError: There is no such work pool, or the Prefect API did not answer.
    """
    BundleStorage(bucket)  # whether it names a bucket
    configuration = storage_configuration(
        bucket, upload_launcher=upload_launcher, execution_launcher=execution_launcher
    )
    asyncio.run(configure(pool, configuration))
    sys.stdout.write(f"Work pool {pool!r} stores bundles in {bucket}.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Configure a work pool's bundle storage; returns the exit status."""
    options = argparse.ArgumentParser(
        prog="python -m prefect_vertex.bundles",
        description="Let a work pool store the bundles of ad-hoc runs in a bucket.",
        allow_abbrev=False,
    )
    options.add_argument("pool", help="the work pool's name")
    options.add_argument("--bucket", required=True, help="bucket name, or gs://bucket/prefix")
    options.add_argument(
        "--upload-launcher",
        default="python3",
        type=shlex.split,
        help="starts Python here (%(default)s)",
    )
    options.add_argument(
        "--execution-launcher",
        default="python3",
        type=shlex.split,
        help="starts Python in the container (%(default)s)",
    )
    given = options.parse_args(arguments)

    def act() -> None:
        set_storage(
            given.pool,
            given.bucket,
            upload_launcher=given.upload_launcher,
            execution_launcher=given.execution_launcher,
        )

    return ending(act, 1)


if __name__ == "__main__":
    sys.exit(main())
