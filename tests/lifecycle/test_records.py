"""Entries become records: a traceback is one, and what a log holds is known line by line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from prefect_vertex.lifecycle.lines import ERROR, INFO, Line, LogEntry
from prefect_vertex.lifecycle.records import lines_of, told_once, unknown

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
MARK = "... [cut]"
TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "a.py", line 1, in <module>',
    "    import gone",
    "ModuleNotFoundError: No module named 'gone'",
]
CHAIN = "During handling of the above exception, another exception occurred:"
RAISED = ["Traceback (most recent call last):", "    f()", "RuntimeError: b"]


def entries(*texts: str, second: float = 0, step: float = 0.01, **fields: Any) -> list[LogEntry]:
    return [
        LogEntry(
            **{
                "job_id": "1",
                "task_name": "workerpool0-0",
                "insert_id": f"{second}-{number}",
                "timestamp": NOON + timedelta(seconds=second + step * number),
                "text": text,
                **fields,
            }
        )
        for number, text in enumerate(texts)
    ]


def keys(lines: list[Line]) -> list[Any]:
    return [line.key for line in lines]


def test_a_traceback_is_one_error_and_what_stands_around_it_is_not_its_own() -> None:
    lines = lines_of(entries("loading", *TRACEBACK, "Killed"))

    assert [line.text for line in lines] == ["loading", "\n".join(TRACEBACK), "Killed"]
    assert [line.level for line in lines] == [INFO, ERROR, INFO]
    assert lines[1].timestamp == NOON + timedelta(milliseconds=10)


def test_one_that_was_raised_while_another_was_handled_is_the_same_record() -> None:
    text = [*TRACEBACK, CHAIN, *RAISED]
    assert [line.text for line in lines_of(entries(*text, "on"))] == ["\n".join(text), "on"]


def test_a_loggers_error_and_its_traceback_are_one_record_without_the_consoles_prefix() -> None:
    head = "12:00:00.123 | ERROR   | prefect.engine - Engine execution failed"
    (line,) = lines_of(entries(head, *TRACEBACK))

    assert line.text == "\n".join(["Engine execution failed", *TRACEBACK])
    assert line.level == ERROR


def test_a_loggers_line_has_its_own_level_and_no_second_time() -> None:
    head = "12:00:00.123 | \x1b[31mWARNING\x1b[0m | Flow run 'a' - low"
    (line,) = lines_of(entries(head))
    assert (line.text, line.level) == ("low", 30)


@pytest.mark.parametrize(
    "texts",
    [
        (*TRACEBACK, *TRACEBACK),
        ("INFO: ready", *TRACEBACK),
        ("12:00:00.123 | INFO    | app - ready", *TRACEBACK),
        (*TRACEBACK[:2], "Killed", *TRACEBACK),
    ],
)
def test_what_only_stands_before_a_traceback_is_a_line_of_its_own(texts: tuple[str, ...]) -> None:
    lines = lines_of(entries(*texts))
    assert lines[-1].text == "\n".join(TRACEBACK)
    assert "\n".join(line.text for line in lines).count("Traceback") == texts.count(TRACEBACK[0])


def test_two_replicas_tracebacks_are_not_mixed() -> None:
    one, other = entries(*TRACEBACK), entries(*RAISED, task_name="workerpool1-0", second=0.005)
    mixed = sorted(one + other, key=lambda entry: entry.order)

    assert sorted(line.text for line in lines_of(mixed)) == sorted(
        ["\n".join(TRACEBACK), "\n".join(RAISED)]
    )


def test_lines_that_are_far_apart_are_no_record() -> None:
    assert len(lines_of(entries(*TRACEBACK, step=5))) == len(TRACEBACK)


def test_of_several_replicas_each_record_says_whose_it_is() -> None:
    """The service's own need not."""
    service = entries("Job failed.", task_name="service", is_plain=False)
    lines = lines_of([*entries(*TRACEBACK), *service], named=True)
    assert [line.text for line in lines] == [
        "[workerpool0-0] " + "\n".join(TRACEBACK),
        "Job failed.",
    ]


@pytest.mark.parametrize("named", [True, False])
def test_what_a_log_holds_is_known_line_by_line(*, named: bool) -> None:
    """Also where the read begins in the middle of a record, or was of fewer lines."""
    every = entries("loading", *TRACEBACK, CHAIN, *RAISED, "on")
    known = keys(lines_of(every[:5], named=named))

    assert unknown(every, known, cut_mark=MARK) == every[5:]
    assert unknown(every[2:], known, cut_mark=MARK) == every[5:]


def test_a_record_that_a_log_holds_stands_for_itself_alone() -> None:
    """The same words a moment later are another."""
    first, second = entries(*TRACEBACK), entries(*TRACEBACK, second=3)
    known = keys(lines_of(first))

    assert unknown([*first, *second], known, cut_mark=MARK) == second
    print_, later = entries("retrying"), entries("retrying", second=3)
    assert unknown([*print_, *later], keys(lines_of(print_)), cut_mark=MARK) == later


@pytest.mark.parametrize(
    "text", ["10%|#  | 1/9\r20%|## | 2/9", "\rone", "a\fb", "a\u2028b", "a\x85b", "a\r\nb"]
)
@pytest.mark.parametrize("named", [True, False])
def test_only_a_newline_ends_a_line(text: str, *, named: bool) -> None:
    """A progress bar is one line, however often it goes back to its beginning."""
    every = entries("loading", text, *TRACEBACK[:1], "  " + text, *TRACEBACK[-1:])
    assert unknown(every, keys(lines_of(every, named=named)), cut_mark=MARK) == []


def test_lines_of_one_moment_that_are_alike_are_known_each_for_itself() -> None:
    one, same = entries("retrying"), entries("retrying", insert_id="other")
    assert unknown([*one, *same], keys(lines_of(one)), cut_mark=MARK) == same
    assert unknown([*one, *same], keys(lines_of([*one, *same])), cut_mark=MARK) == []


@pytest.mark.parametrize("length", [20, 60, 90])
@pytest.mark.parametrize("named", [True, False])
def test_a_record_that_was_cut_is_known_beyond_the_cut(length: int, *, named: bool) -> None:
    """The rest of it is nowhere, and is not brought as lines of their own."""
    every = entries("loading", *TRACEBACK, "Killed")
    lines = keys(lines_of(every, named=named))
    logger, at, text = lines[1]
    lines[1] = (logger, at, text[:length] + MARK)
    later = entries(*TRACEBACK, second=3)

    assert unknown([*every, *later], lines, cut_mark=MARK) == later


def test_a_line_that_was_cut_is_known_by_its_beginning() -> None:
    (entry,) = entries("x" * 50)
    ((logger, at, text),) = keys(lines_of([entry]))
    assert unknown([entry], [(logger, at, text[:20] + MARK)], cut_mark=MARK) == []


SAYS = "The replica workerpool0-0 exited with a non-zero status of 4. Termination reason: Error. "
LINK = "To find out more about why your job exited please check the logs: https://example.com"


def test_vertex_ais_error_does_not_repeat_what_the_replica_wrote() -> None:
    lines = entries("preparing", "no such thing")
    service = entries(
        f"{SAYS}\nan older line\nno such thing\n\n{LINK}",
        second=9,
        task_name="service",
        is_plain=False,
    )

    assert told_once([*lines, *service], [])[-1].text == SAYS + "\nan older line"
    assert told_once(service, [(NOON, "an older line")])[0].text == SAYS + "\nno such thing"
    one = entries("Job is running.", task_name="service", is_plain=False)
    assert told_once([*lines, *one], []) == [*lines, *one]


def test_vertex_ais_error_does_not_repeat_a_progress_bar() -> None:
    bar = " 10%|#  | 1/9\r 20%|## | 2/9"
    fields: dict[str, Any] = {"task_name": "service", "is_plain": False}
    service = entries(f"{SAYS}\nfirst\n\n{bar}", second=9, **fields)
    assert told_once([*entries("", bar), *service], [])[-1].text == f"{SAYS}\nfirst"
    assert told_once([*entries(""), *service], [])[-1].text == service[0].text


def test_vertex_ais_error_is_known_with_and_without_its_end() -> None:
    fields: dict[str, Any] = {"task_name": "service", "is_plain": False}
    whole = entries(f"{SAYS}\nno such thing\n{LINK}", **fields)
    short = entries(SAYS, **fields)
    assert unknown(whole, keys(lines_of(short)), cut_mark=MARK) == []
    assert unknown(short, keys(lines_of(whole)), cut_mark=MARK) == []
