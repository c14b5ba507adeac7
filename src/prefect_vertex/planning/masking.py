"""Secrets out of sight: neither what a plan prints nor what an error says shows one.

A job variable, the template or a patch can bring a secret to any place of the job. So what is
looked for is its value, wherever it stands, and not only the variable that it came in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.environment import literal
from prefect_vertex.planning.naming import label_value
from prefect_vertex.planning.packed import is_part, unpacked
from prefect_vertex.planning.spec import Candidate
from prefect_vertex.planning.spelling import CUT, numeral, snake_case

MASK = "********"

# A shorter one is hidden only where it is the whole text, or one in quotes: in a longer one it
# may stand by chance. What it went into knowingly is hidden as a whole, by `Candidate.hidden`.
_TELLING_LENGTH = 6
# Between these it stands there by itself: the last are an address's, where it names somebody.
_QUOTES = (('"', '"'), ("'", "'"), ("://", "@"))
# So much of one before a message's dots is its beginning; less stands there by chance.
_BEGINNING = 3

_TASKS = ("container_spec", "python_package_spec")


def secret_values(candidate: Candidate) -> frozenset[str]:
    """What must not be shown of a candidate's job: secrets of Prefect's, and those of blocks."""
    return carried_values(candidate) | (candidate.hidden - {MASK})


def carried_values(candidate: Candidate) -> frozenset[str]:
    """The values of the secrets of Prefect's that a candidate's job carries."""
    names = candidate.secret_env
    places = (candidate.env, candidate.job_spec, candidate.job_spec_patch)
    return frozenset(value for place in places for value in _named(place, names)) - {MASK}


def masked(value: Any, secrets: Iterable[str]) -> Any:
    """A copy of plain values in which no text shows one of the secrets."""
    hide = _hider(secrets)
    return _mapped(value, hide) if hide is not None else value


def masked_lines(lines: Iterable[str], secrets: Iterable[str]) -> tuple[str, ...]:
    """Lines for a user in which no secret is shown, nor what a shortened value leaves of one."""
    hidden = {*secrets} - {MASK}
    hide = _hider(hidden)
    if hide is None:
        return tuple(lines)
    spelled = _spellings(hidden)[0]
    return tuple(_without_beginnings(hide(line), spelled) for line in lines)


def told_without(error: PlanError, secrets: Iterable[str]) -> PlanError:
    """The same mistake without the secrets that its words quote; itself if they quote none."""
    message, hint = masked_lines((error.message, error.hint), secrets)
    if (message, hint) == (error.message, error.hint):
        return error
    return type(error)(message, variable=error.variable, hint=hint)


@contextmanager
def hiding(secrets: Iterable[str]) -> Iterator[None]:
    """Tell a mistake that is found inside without the secrets; more may join them meanwhile."""
    try:
        yield
    except PlanError as error:
        told = told_without(error, secrets)
        if told is error:
            raise
        # Not chained: the first one quotes a secret.
        raise told from None


def masked_data(value: Any, secrets: Iterable[str]) -> Any:
    """As `masked`, in keys and numbers too: for what users wrote, where neither means ours."""
    hide = _hider(secrets)
    return _mapped(value, hide, whole=True) if hide is not None else value


def masked_request(
    request: Mapping[str, Any], names: frozenset[str], secrets: Iterable[str]
) -> dict[str, Any]:
    """A request, in the template's spelling, as it may be printed.

    A variable that holds a secret is masked as a whole, so that a script can ask for its value.

    Args:
        request: A CreateCustomJobRequest.
        names: The environment variables whose values are secrets.
        secrets: Values that are known already; those of the variables join them.
    """
    hidden = {*secrets, *_named(request, names)} - {MASK}
    shown: dict[str, Any] = masked(_mapped(request, str), hidden)
    for pool, own in zip(_pools(shown), _pools(request), strict=True):
        # A count, which JSON has as a text.
        pool |= {name: own[name] for name in ("replica_count",) if name in own}
    for env, original in zip(_environments(shown), _environments(request), strict=True):
        packs = _packs_secret(original, names, hidden)
        for entry, sent in zip(env, original, strict=True):
            name = sent["name"]
            shows_part = entry.get("value") != sent.get("value")
            if name in names or shows_part or (packs and is_part(name)):
                entry["value"] = MASK
    return shown


def stands_outside_env(request: Mapping[str, Any], secrets: Iterable[str]) -> bool:
    """Whether one of the secrets stands in a request where no environment variable does."""
    plain = _mapped(request, lambda text: text)
    for env in _environments(plain):
        env.clear()
    return bool(masked(plain, secrets) != plain)


def without_secrets(
    error: PlanError, candidate: Candidate, plan: Callable[[Candidate], object]
) -> PlanError:
    """The same mistake, told without the secrets that its message may quote, whole or in part.

    Args:
        error: What was raised for the candidate; it is returned if it tells none.
        candidate: It.
        plan: Plans a candidate as that one was planned.
    """
    secrets = secret_values(candidate)
    if not secrets:
        return error
    told = error
    try:
        plan(_without_values(candidate, secrets))
    except PlanError as again:
        told = again
    told = told_without(told, secrets)
    return error if (told.message, told.hint) == (error.message, error.hint) else told


def _without_values(candidate: Candidate, secrets: Iterable[str]) -> Candidate:
    names = candidate.secret_env
    env = {name: MASK if name in names else value for name, value in candidate.env.items()}
    return replace(
        candidate,
        env=masked(env, secrets),
        **{
            name: masked(getattr(candidate, name), secrets)
            for name in ("job_spec", "job_spec_patch", "labels", "name", "command", "setup_command")
        },
    )


def _hider(secrets: Iterable[str]) -> Callable[[str], str] | None:
    """What hides the secrets in a text; None where there are none."""
    given = [secret for secret in secrets if secret.strip("*")]
    if not given:
        return None
    spelled, quoted = _spellings(given)
    # The longest first, because one may hold another.
    parts = sorted(
        {*quoted, *(text for text in spelled if len(text) >= _TELLING_LENGTH)},
        key=lambda text: (-len(text), text),
    )

    def hide(text: str) -> str:
        if text in spelled:
            return MASK
        for part in parts:
            text = text.replace(part, quoted.get(part, MASK))
        return text

    return hide


def _spellings(secrets: Iterable[str]) -> tuple[frozenset[str], dict[str, str]]:
    """The secrets as they may stand somewhere; and the short ones in quotes, with what hides each.

    In quotes is how one stands in a list that is sent as JSON, and in a message; what an address
    has around the name and password in it counts as quotes too.
    """
    given = set(secrets)
    spelled = {*given, *(label_value(secret) for secret in given)} - {""}
    # As they stand in a list that is sent as JSON, and where the platform's `$` is escaped.
    spelled |= {literal(secret) for secret in given}
    # As a message quotes one, and as it names a strategy or a number.
    spelled |= {repr(secret)[1:-1] for secret in given}
    spelled |= {snake_case(secret).upper() for secret in given} - {""}
    spelled |= {str(number) for secret in given if (number := numeral(secret)) is not None}
    for only_ascii in (True, False):
        spelled |= {json.dumps(secret, ensure_ascii=only_ascii)[1:-1] for secret in given}
    short = [text for text in spelled if len(text) < _TELLING_LENGTH]
    return frozenset(spelled), {
        f"{before}{text}{after}": f"{before}{MASK}{after}"
        for text in short
        for before, after in _QUOTES
    }


def _without_beginnings(line: str, spelled: Iterable[str]) -> str:
    """A line in which no dots that shorten a value stand behind the beginning of a secret."""
    *parts, last = line.split(CUT)
    for index, text in enumerate(parts):
        if size := max(_overlap(text, secret) for secret in spelled):
            parts[index] = f"{text[:-size]}{MASK}"
    return CUT.join((*parts, last))


def _overlap(text: str, secret: str) -> int:
    """How much of a secret's beginning a text ends with."""
    longest = min(len(text), len(secret))
    sizes = range(longest, _BEGINNING - 1, -1)
    return next((size for size in sizes if text.endswith(secret[:size])), 0)


def _mapped(value: Any, hide: Callable[[str], str], *, whole: bool = False) -> Any:
    """A copy whose texts went through `hide`; with `whole`, its keys and numbers too."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        result: dict[Any, Any] = {}
        for key, item in value.items():
            name = hide(key) if whole and isinstance(key, str) else key
            while name in result:
                name += "'"
            result[name] = _mapped(item, hide, whole=whole)
        return result
    if isinstance(value, list | tuple):
        return [_mapped(item, hide, whole=whole) for item in value]
    if whole and isinstance(value, int | float) and not isinstance(value, bool):
        return MASK if hide(str(value)) == MASK else value
    return value


def _named(value: Any, names: frozenset[str]) -> Iterator[str]:
    """What variables of these names are set to, in a mapping or as entries of name and value."""
    if isinstance(value, Mapping):
        name = value.get("name")
        if isinstance(name, str) and name in names and value.get("value") is not None:
            yield str(value["value"])
        for key, item in value.items():
            if key in names and item is not None:
                yield str(item)
            else:
                yield from _named(item, names)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _named(item, names)


def _environments(request: Mapping[str, Any]) -> Iterator[list[dict[str, str]]]:
    for pool in _pools(request):
        for task in _TASKS:
            yield pool.get(task, {}).get("env", [])


def _pools(request: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    pools: Sequence[dict[str, Any]] = request["custom_job"]["job_spec"].get("worker_pool_specs", ())
    return pools


def _packs_secret(
    env: Iterable[Mapping[str, str]], names: frozenset[str], secrets: Iterable[str]
) -> bool:
    values = unpacked({entry["name"]: entry.get("value", "") for entry in env})
    return bool(names & values.keys()) or masked(values, secrets) != values
