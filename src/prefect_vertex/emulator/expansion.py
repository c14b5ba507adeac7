"""`$(VAR)` and `$$`, as Kubernetes expands them in env values, command and args.

Source: https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
and the EnvVar message of Vertex AI.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace known `$(NAME)`, leave unknown ones as written, and halve every `$$`.

    What a replacement brings in is not looked at again, and `$NAME` is nothing special.
    """

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "$"
        return variables.get(name, match.group(0))

    return _REFERENCE.sub(replacement, text)


def expand_environment(
    entries: Sequence[tuple[str, str]], platform: Mapping[str, str]
) -> dict[str, str]:
    """`platform` and then `entries`, each seeing what stands before it.

    An entry of the platform's name takes its place.
    """
    variables = dict(platform)
    for name, value in entries:
        variables[name] = expand(value, variables)
    return variables
