"""What the proxies are told to do, and what they have seen: plain data that travels as JSON."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Api = Literal["prefect", "jobs"]
When = Literal["before", "after"]
Action = Literal["kill", "drop", "answer", "delay"]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(slots=True, kw_only=True)
class Rule:
    """One fault for calls that fit.

    Attributes:
        api: Which of the two.
        kind: The call's, exactly; empty for any, a final `*` for any that begins so.
        about: A text that stands in the call's path or body, such as a flow run's id.
        who: `worker` or `container`; empty for both.
        skip: How many fitting calls are let through first.
        times: To how many calls it happens; 0 for all until the rules are cleared.
        when: Before the call reaches the server, or after it has had its effect there.
        action: SIGKILL to `pid`, cut the connection, answer with `code`, or answer late.
        code: A gRPC status name, or an HTTP status.
        seconds: How long `delay` takes.
        pid: The process that `kill` ends.
        name: What the figures call it; by default its action and code.
        owner: Whose it is: each scenario waits for its own and drops its own.
    """

    api: Api
    action: Action
    kind: str = ""
    about: str = ""
    who: str = "worker"
    skip: int = 0
    times: int = 1
    when: When = "before"
    code: str = ""
    seconds: float = 0.0
    pid: int = 0
    name: str = ""
    owner: str = ""
    fired: int = 0

    @property
    def label(self) -> str:
        """Its name in the figures."""
        return self.name or " ".join(part for part in (self.action, self.code) if part)

    def fits(self, call: Call) -> bool:
        """Whether a call is one of those that it is for."""
        if self.api != call.api or (self.who and self.who != call.who):
            return False
        if self.kind.endswith("*"):
            if not call.kind.startswith(self.kind[:-1]):
                return False
        elif self.kind and self.kind != call.kind:
            return False
        return self.about.encode() in call.content


@dataclass(slots=True, kw_only=True)
class Call:
    """One call that came."""

    api: Api
    kind: str
    who: str
    content: bytes
    at: float = field(default_factory=time.time)


class Script:
    """The rules in force and the calls so far, shared by both proxies of one process."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.calls: list[tuple[float, str, str, str, str]] = []
        self.fired: Counter[str] = Counter()
        self.held: Counter[str] = Counter()

    def note(self, call: Call) -> None:
        """Remember a call: when, which API, who, which kind, and about which run."""
        found = _UUID.search(call.content.decode(errors="replace"))
        about = found[0] if found else ""
        self.calls.append((call.at, call.api, call.who, call.kind, about))

    def take(self, call: Call) -> Rule | None:
        """The first rule for a call, used once more."""
        for rule in self.rules:
            if not rule.fits(call):
                continue
            if rule.skip:
                rule.skip -= 1
                continue
            rule.fired += 1
            self.fired[rule.label] += 1
            if rule.times and rule.fired >= rule.times:
                self.rules.remove(rule)
            return rule
        return None

    def add(self, rules: list[dict[str, Any]]) -> None:
        """Add rules."""
        self.rules += [Rule(**rule) for rule in rules]

    def pending(self, kind: str) -> int:
        """How many calls of a kind are held back at this moment."""
        return self.held[kind]

    def left(self, owner: str) -> list[dict[str, Any]]:
        """An owner's rules that still wait for a call."""
        return [asdict(rule) for rule in self.rules if rule.owner == owner]

    def clear(self, owner: str) -> None:
        """Drop an owner's rules."""
        self.rules = [rule for rule in self.rules if rule.owner != owner]
