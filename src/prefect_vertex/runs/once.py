"""Requests that Prefect's client sends once instead of repeating them by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prefect.context import SettingsContext, get_settings_context
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, Settings


class SentOnce:
    """A context in which a request that breaks is not sent again.

    The client repeats a broken request for up to a minute, and what it says may be untrue by then:
    a run may have ended between a proposal that was lost and its repetition.  Whoever proposes
    decides anew instead.
    """

    def __init__(self) -> None:
        # Copying the settings takes some 30 ms of CPU time (3.9.1), too much for every request.
        self._copied: tuple[Settings, Settings] | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Enter it; any number of tasks may be in it at once."""
        around = get_settings_context()
        if self._copied is None or self._copied[0] is not around.settings:
            changed = around.settings.copy_with_update(updates={PREFECT_CLIENT_MAX_RETRIES: 0})
            self._copied = (around.settings, changed)
        with SettingsContext(profile=around.profile, settings=self._copied[1]):
            yield
