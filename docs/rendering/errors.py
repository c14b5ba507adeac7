"""The error tree: what is raised when, and what it carries."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from prefect_vertex import errors
from prefect_vertex.errors import PrefectVertexError, ServiceError
from rendering.markdown import code, page, table


def error_classes(
    of: type[PrefectVertexError] = PrefectVertexError,
) -> Iterator[type[PrefectVertexError]]:
    """The tree in the order in which it is written, each class before what descends from it."""
    yield of
    for each in vars(errors).values():
        if inspect.isclass(each) and issubclass(each, of) and of in each.__bases__:
            yield from error_classes(each)


def errors_page() -> str:
    """Every class of `prefect_vertex.errors`."""
    rows = [(code(each.__name__), _parents(each), _when(each)) for each in error_classes()]
    return page(
        "# Errors",
        "All errors that the package raises itself descend from one class and stand in "
        "`prefect_vertex.errors`. None descends from an error of Google, gRPC or Prefect; the "
        "original is the cause. **A job that fails is no error**: its flow run is Crashed, with "
        "the reason in the message and in the [event](events.md).",
        _example(),
        table(("class", "is a", "raised when"), rows),
        "## What they carry",
        table(("class", "fields"), _fields()),
        f"`str(error)` is the message and the hint. `retryable` is true where the same call may "
        f"succeed later: {', '.join(_retryable())}.",
    )


def _example() -> Iterator[str]:
    yield "```python"
    yield "from pathlib import Path"
    yield ""
    yield "from prefect_vertex.deployments import stage_code"
    yield "from prefect_vertex.errors import DeliveryError, PrefectVertexError"
    yield ""
    yield "try:"
    yield '    staged = stage_code(path=str(Path.cwd()), staging_bucket="my-staging-bucket")'
    yield "except DeliveryError as error:"
    yield '    raise SystemExit(f"{error.message} {error.hint}") from error'
    yield "except PrefectVertexError as error:"
    yield "    raise SystemExit(str(error)) from error"
    yield "```"


def _parents(kind: type[PrefectVertexError]) -> str:
    names = [each.__name__ for each in kind.__bases__ if each is not Exception]
    return ", ".join(code(name) for name in names) or code("Exception")


def _when(kind: type[PrefectVertexError]) -> str:
    text = inspect.getdoc(kind) or ""
    first = text.partition("\n\nArgs:")[0].split("\n\n")
    return " ".join(part for part in first if not part.startswith(("Attributes:", "Raised by")))


def _fields() -> Iterator[tuple[str, str]]:
    yield code("PrefectVertexError"), "`message`: one line; `hint`: what to do, may be empty"
    yield code("PlanError"), "`variable`: the job variable at fault; empty if it is no single one"
    yield (
        code("ServiceError"),
        (
            "`code`: gRPC status name; `verdict`: code, ErrorInfo's reason and metadata, "
            "`retry_after_seconds`; `resource_name`: what the call named; `retryable`"
        ),
    )


def _retryable() -> Iterator[str]:
    for each in error_classes(ServiceError):
        if getattr(each, "retryable", False):
            yield code(each.__name__)
