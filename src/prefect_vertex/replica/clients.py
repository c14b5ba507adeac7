"""Clients of the Prefect API that are closed with what they belong to."""

from __future__ import annotations

import weakref

from prefect.client.orchestration import SyncPrefectClient, get_client


def client_of(owner: object) -> SyncPrefectClient:
    """A client for as long as its owner lives; dropped unclosed, its connections would stay open.

    Not at the interpreter's exit, when a thread of the owner's may still be asking.
    """
    client: SyncPrefectClient = get_client(sync_client=True)
    weakref.finalize(owner, client.__exit__, None, None, None).atexit = False
    return client
