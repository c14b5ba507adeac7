"""The reference pages, made from the code that they describe; `make docs` writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from rendering.commands import commands_page
from rendering.errors import errors_page
from rendering.events import events_page
from rendering.exits import exits_page
from rendering.settings import settings_page
from rendering.states import states_page
from rendering.variables import variables_page

PAGES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "job-variables.md": variables_page,
        "settings.md": settings_page,
        "cli.md": commands_page,
        "states.md": states_page,
        "events.md": events_page,
        "errors.md": errors_page,
        "exit-codes.md": exits_page,
    }
)
"""File name → what makes its text."""
