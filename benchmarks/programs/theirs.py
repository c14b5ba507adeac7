"""Runs in prefect-gcp's own environment: its worker as shipped, its client at the emulator.

    python -P theirs.py template            its base job template, as JSON
    python -P theirs.py key FILE PROJECT    a service account's key file that opens nothing
    python -P theirs.py prefect ...         `prefect ...`

prefect-gcp knows no emulator and always asks for credentials and a service account.  So it is given
a key made on the spot, which nobody ever sees, and the one place in Google's client that opens a
channel is replaced: same client, same messages, plaintext to VERTEX_AI_EMULATOR_HOST.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path


def _print_template() -> None:
    # Only in the other environment.
    from prefect_gcp.workers.vertex import VertexAIWorker  # type: ignore[import-not-found]

    sys.stdout.write(json.dumps(VertexAIWorker.get_default_base_job_template()))


def _write_key(path: Path, project: str) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    account = {
        "type": "service_account",
        "project_id": project,
        "private_key_id": "none",
        "private_key": pem.decode(),
        "client_email": f"bench@{project}.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": "http://127.0.0.1:9/token",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(account))


def _point_at_emulator(address: str) -> None:
    import grpc.aio  # noqa: TID251 - prefect-gcp's, not ours
    from google.cloud.aiplatform_v1.services.job_service.transports.grpc_asyncio import (  # noqa: TID251 - same
        JobServiceGrpcAsyncIOTransport,
    )

    def create_channel(
        cls: type[JobServiceGrpcAsyncIOTransport], host: str = "", **options: object
    ) -> grpc.aio.Channel:
        del cls, host, options
        return grpc.aio.insecure_channel(address)

    JobServiceGrpcAsyncIOTransport.create_channel = classmethod(create_channel)  # type: ignore[assignment, arg-type]


def main() -> None:
    """Do what the first argument says."""
    action, *arguments = sys.argv[1:]
    if action == "template":
        _print_template()
    elif action == "key":
        _write_key(Path(arguments[0]), arguments[1])
    elif action == "prefect":
        _point_at_emulator(os.environ["VERTEX_AI_EMULATOR_HOST"])
        sys.argv = ["prefect", *arguments]
        runpy.run_module("prefect", run_name="__main__", alter_sys=True)
    else:
        sys.exit(f"theirs.py knows template, key and prefect, not {action!r}.")


if __name__ == "__main__":
    main()
