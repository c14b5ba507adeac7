"""Prefect's settings, as its own model says: the variables of each, and which reach a job.

Prefect puts every setting of the worker's process into a job's environment. Most are meant for the
flow; what is about this machine or another process is wrong there, and is told by the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from typing import Any, get_args, get_origin

from prefect.settings import Settings
from prefect.settings.base import PrefectBaseSettings
from pydantic import AliasChoices
from pydantic.fields import FieldInfo

# No type tells these: they are about a Prefect server, a worker, Prefect's own test suite and
# somebody at a terminal, and a replica is none of them. Sections that Prefect adds reach the job.
_OF_OTHER_PROCESSES = frozenset({"server", "worker", "testing", "cli"})

# Limits of the server's that its clients judge an event by before they send it (Prefect 3.9.1,
# prefect/events/utilities.py and worker.py): with others a flow's events would be refused.
_READ_BY_CLIENTS = frozenset(
    {"server.events.maximum_size_bytes", "server.events.maximum_related_resources"}
)


@dataclass(frozen=True, slots=True)
class PrefectSetting:
    """One setting.

    Attributes:
        path: Where it stands in the model, such as `logging.to_api.enabled`.
        variables: Its environment variables in capitals: its own, then older names.
        annotation: Its type.
    """

    path: str
    variables: tuple[str, ...]
    annotation: Any

    @property
    def reaches_the_job(self) -> bool:
        """Whether it means the same in a container.

        A path does not. A CA file is no path by its type; the image has to bring it.
        """
        if self.path in _READ_BY_CLIENTS:
            return True
        section, dot, _ = self.path.partition(".")
        return not (
            holds(self.annotation, PurePath) or (bool(dot) and section in _OF_OTHER_PROCESSES)
        )


def prefect_settings(
    model: type[PrefectBaseSettings] = Settings, section: str = ""
) -> Iterator[PrefectSetting]:
    """Every setting of a model of Prefect's, sections included."""
    for name, field_info in model.model_fields.items():
        path = f"{section}{name}"
        below = _sections(field_info.annotation)
        if below:
            for each in below:
                yield from prefect_settings(each, f"{path}.")
        else:
            yield PrefectSetting(
                path, tuple(_variables(model, name, field_info)), field_info.annotation
            )


def holds(annotation: Any, *kinds: type) -> bool:
    """Whether a type is one of `kinds`, or has one in it at any depth."""
    return any(issubclass(each, kinds) for each in _classes(annotation))


@cache
def kept_back() -> frozenset[str]:
    """Variables of the settings that stay with the worker, older names included."""
    return frozenset(
        variable
        for setting in prefect_settings()
        if not setting.reaches_the_job
        for variable in setting.variables
    )


def _classes(annotation: Any) -> Iterator[type]:
    for each in (annotation, get_origin(annotation)):
        if isinstance(each, type):
            yield each
    for part in get_args(annotation):
        yield from _classes(part)


def _sections(annotation: Any) -> list[type[PrefectBaseSettings]]:
    return [each for each in _classes(annotation) if issubclass(each, PrefectBaseSettings)]


def _variables(model: type[PrefectBaseSettings], name: str, field_info: FieldInfo) -> Iterator[str]:
    yield f"{model.model_config.get('env_prefix', '')}{name}".upper()
    alias = field_info.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    yield from (choice.upper() for choice in choices if isinstance(choice, str))
