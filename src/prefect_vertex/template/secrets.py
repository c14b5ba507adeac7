"""Which environment variables hold secrets of Prefect's, by the type of the setting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import get_args

from prefect.settings import Settings
from prefect.settings.base import PrefectBaseSettings
from pydantic import AliasChoices, Secret, SecretBytes, SecretStr
from pydantic.fields import FieldInfo

# Typed as a plain mapping in Prefect 3.9, but it is where people put tokens for a proxy.
_TREATED_AS_SECRET = frozenset({"PREFECT_CLIENT_CUSTOM_HEADERS"})


@cache
def secret_setting_names() -> frozenset[str]:
    """Names of the environment variables of all secret Prefect settings, older names included."""
    return frozenset(_names(Settings)) | _TREATED_AS_SECRET


def secret_names(env: Iterable[str]) -> frozenset[str]:
    """Those of `env` whose values are never shown."""
    return frozenset(env) & secret_setting_names()


def _names(settings: type[PrefectBaseSettings]) -> Iterator[str]:
    for name, field in settings.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, PrefectBaseSettings):
            yield from _names(annotation)
        elif _is_secret(field):
            yield f"{settings.model_config.get('env_prefix', '')}{name}".upper()
            if isinstance(field.validation_alias, AliasChoices):
                choices = field.validation_alias.choices
                yield from (choice.upper() for choice in choices if isinstance(choice, str))


def _is_secret(field: FieldInfo) -> bool:
    kinds = (field.annotation, *get_args(field.annotation))
    return any(
        isinstance(kind, type) and issubclass(kind, SecretStr | SecretBytes | Secret)
        for kind in kinds
    )
