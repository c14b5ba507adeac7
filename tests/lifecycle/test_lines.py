"""Entries become lines: their level, their logger, and which of them Prefect has already."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from prefect_vertex.lifecycle.lines import (
    CRITICAL,
    DEBUG,
    ERROR,
    INFO,
    LEADER_TASK,
    WARNING,
    LogEntry,
    is_from_container,
    level_of,
    line_of,
    task_name_of,
)
from prefect_vertex.lifecycle.sent import unsent

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
SECOND = task_name_of(1)
TRACEBACK = ["Traceback (most recent call last):", "  frame", "ValueError: x"]


def an_entry(text: str, *, second: float = 0, **fields: Any) -> LogEntry:
    moment = NOON + timedelta(seconds=second)
    usual = {"job_id": "1", "task_name": "workerpool0-0", "insert_id": f"i{second}"}
    return LogEntry(**{**usual, "timestamp": moment, "text": text, **fields})


def texts(entries: list[LogEntry]) -> list[str]:
    return [entry.text for entry in entries]


def test_levels_are_those_of_python() -> None:
    assert (DEBUG, INFO, WARNING, ERROR, CRITICAL) == (
        logging.DEBUG,
        logging.INFO,
        logging.WARNING,
        logging.ERROR,
        logging.CRITICAL,
    )


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("12:00:00.123 | ERROR   | prefect.engine - boom", ERROR),
        ("12:00:00.123 | WARNING | Flow run 'a-b' - low", WARNING),
        ("12:00:00.123 | INFO    | prefect.runner - ERROR is a word", INFO),
        ("ERROR:root:boom", ERROR),
        ("CRITICAL:app.db:gone", CRITICAL),
        ("WARNING: something", WARNING),
        ("[ERROR] boom", ERROR),
        ("DEBUG | detail", DEBUG),
        ("2026-11-01 12:00:00,123 - app - WARNING - low", WARNING),
        ("2026-11-01 12:00:00,123 ERROR boom", ERROR),
        ("2026-11-01T12:00:00.123Z INFO ready", INFO),
        ("[2026-11-01 12:00:00 +0000] [7] [CRITICAL] WORKER TIMEOUT", INFO),
        ("[2026-11-01 12:00:00,123] WARNING in app: low", WARNING),
        ("E1101 12:00:00.123456 7 file.cc:12] boom", ERROR),
        ("W1101 12:00:00.123456 7 file.cc:12] low", WARNING),
        ("2026-11-01T12:00:00+01:00 [WARNING] low", WARNING),
        ("2026-11-01 12:00:00,123: ERROR boom", ERROR),
        ("\x1b[31mERROR\x1b[0m:    boom", ERROR),
        ("Traceback (most recent call last):", INFO),
        ("ERROR 404 is what the page said", INFO),
        ("Errors: 0", INFO),
        ("", INFO),
    ],
)
def test_the_level_of_a_plain_line_is_its_own_prefixs(text: str, level: int) -> None:
    assert level_of(text) == level


@pytest.mark.parametrize("unit", ["-", "[", "-a", "(a.", "\x1b[", "0", "é"])
def test_the_time_that_a_long_line_takes_grows_with_its_length_only(unit: str) -> None:
    """One of a million characters would take days if it grew with the square."""
    for start in ("12:00:00", "2026-11-01 12:00:00,1", "12:00:00.000 | INFO | Flow run '", "ERROR"):
        text = start + unit * (1_000_000 // len(unit))
        assert level_of(text) in {INFO, ERROR}
        assert len(unsent([an_entry(text)])) == 1


def test_standard_error_alone_makes_no_error() -> None:
    assert line_of(an_entry("loading", severity=500)).level == INFO


@pytest.mark.parametrize(
    ("severity", "level"),
    [(0, INFO), (100, DEBUG), (200, INFO), (300, INFO), (400, WARNING), (500, ERROR), (800, 50)],
)
def test_what_names_its_own_severity_keeps_it(severity: int, level: int) -> None:
    entry = an_entry("Job failed.", task_name="service", is_plain=False, severity=severity)
    assert line_of(entry).level == level


def test_a_line_is_logged_under_its_replicas_name_with_the_entrys_time() -> None:
    line = line_of(an_entry("up\0 \n", task_name="workerpool1-3"))
    assert (line.logger, line.timestamp, line.text) == ("prefect.vertex.workerpool1-3", NOON, "up")


@pytest.mark.parametrize(
    ("logger", "is_own"),
    [
        ("prefect.flow_runs", True),
        ("prefect.task_runs", True),
        ("my.module", True),
        ("prefect.flow_runs.worker", False),
        ("prefect.vertex.workerpool0-0", False),
    ],
)
def test_the_runs_own_process_is_told_from_workers(logger: str, *, is_own: bool) -> None:
    assert is_from_container(logger) is is_own


def test_what_run_loggers_print_is_sent_already() -> None:
    """With what belongs to the same record; a later line, and another logger's, are not."""
    entries = [
        an_entry("bootstrap", second=0),
        an_entry("12:00:01.000 | ERROR   | Flow run 'a' - boom", second=1),
        an_entry("Traceback (most recent call last):", second=1.1),
        an_entry("ValueError: x", second=1.2),
        an_entry("12:00:01.300 | INFO    | prefect.runner - ended", second=1.3),
        an_entry("print", second=1.4),
        an_entry('12:00:02.000 | INFO    | Task run "it\'s" - hello', second=2),
        an_entry("much later", second=9),
    ]
    kept = texts(unsent(entries))
    assert kept == [entries[0].text, entries[4].text, "print", "much later"]


def test_a_record_of_one_replica_hides_no_line_of_another() -> None:
    record = an_entry("12:00:01.000 | ERROR   | Flow run 'a' - boom", second=1)
    other = an_entry("mine", second=1.1, task_name="workerpool1-0")
    assert unsent([record, other]) == [other]


def test_of_a_dead_process_only_what_it_sent_is_left_out() -> None:
    sent = an_entry("12:00:01.000 | INFO    | Flow run 'a' - step 1", second=1)
    lost = an_entry("12:00:02.000 | INFO    | Flow run 'a' - step 2", second=2)
    traceback = an_entry("ValueError: x", second=3)
    fatal = an_entry("Fatal Python error: Segmentation fault", second=4)
    said = [
        (NOON + timedelta(seconds=second), text)
        for second, text in ((1, "step 1"), (3, "Traceback …"), (3, "ValueError: x"))
    ]

    assert unsent([fatal, traceback, lost, sent], {LEADER_TASK: said}) == [lost, fatal]


def test_a_record_of_a_dead_process_was_sent_whole_or_not_at_all() -> None:
    """A second account of the same exception shares most of its lines."""
    first = ["12:00:01.000 | ERROR   | Flow run 'a' - no flow", *TRACEBACK]
    again = ["12:00:01.200 | ERROR   | prefect.engine - stopped", *TRACEBACK[:1], *TRACEBACK]
    one = [an_entry(text, second=1 + number / 100) for number, text in enumerate(first)]
    two = [an_entry(text, second=1.2 + number / 100) for number, text in enumerate(again)]
    text = "\n".join(["no flow", *TRACEBACK])
    said = [(NOON + timedelta(seconds=1), each) for each in (text, *text.splitlines())]

    assert unsent([*one, *two], {LEADER_TASK: said}) == two


def test_a_line_that_was_sent_stands_for_one_entry_of_its_time() -> None:
    """Others like it, printed or lost, are not in Prefect."""
    printed = an_entry("retrying", second=19.9)
    sent = an_entry("12:00:20.000 | INFO    | Flow run 'a' - retrying", second=20)
    lost = an_entry("12:00:25.000 | INFO    | Flow run 'a' - retrying", second=25)
    later = an_entry("retrying", second=90)
    said = [(NOON + timedelta(seconds=20), "retrying"), (NOON, "retrying")]

    assert unsent([printed, sent, lost, later], {LEADER_TASK: said}) == [printed, lost, later]


def test_other_replicas_send_to_flow_runs_of_their_own() -> None:
    """What the leader said is nothing about them."""
    record = an_entry("12:00:01.000 | INFO | Flow run 'b' - up", task_name="workerpool1-0")
    print_ = an_entry("up", second=5, task_name="workerpool1-0")
    assert unsent([record, print_], {LEADER_TASK: [(NOON, "up")]}) == [print_]


def test_of_another_replica_that_died_what_it_did_not_send_is_left() -> None:
    """Its last record was still on its way when it was killed."""
    sent = an_entry("12:00:01.000 | INFO | Flow run 'b' - up", second=1, task_name=SECOND)
    lost = an_entry("12:00:02.000 | INFO | Flow run 'b' - down", second=2, task_name=SECOND)

    assert unsent([sent, lost], {SECOND: [(sent.timestamp, "up")]}) == [lost]


def test_what_the_shell_says_after_a_record_is_not_a_part_of_it() -> None:
    record = an_entry("12:00:01.000 | ERROR   | Flow run 'a' - boom", second=1)
    frame = [
        an_entry(text, second=1.1 + number / 100)
        for number, text in enumerate(
            ["Traceback (most recent call last):", '  File "a.py"', "    f()", "KeyboardInterrupt"]
        )
    ]
    killed = an_entry("Killed", second=1.3)
    note = an_entry("note: on GPU 0", second=1.4)

    assert unsent([record, killed]) == [killed]
    assert unsent([record, *frame, killed, note]) == [killed, note]
    assert unsent([record, *frame[:3], killed]) == [killed]


def test_a_run_loggers_line_is_known_in_colour() -> None:
    text = "12:00:01.000 | \x1b[36mINFO\x1b[0m    | Flow run\x1b[35m 'a'\x1b[0m - hello"
    entry = an_entry(text, second=1)
    assert unsent([entry]) == []
    assert unsent([entry], {LEADER_TASK: [(entry.timestamp, "hello")]}) == []


def test_an_entry_has_its_own_key_beside_others_of_its_log() -> None:
    """An id tells apart only entries of one time."""
    same = [an_entry("a", insert_id="i"), an_entry("a", insert_id="i")]
    others = [
        an_entry("a", insert_id="i", second=1),
        an_entry("a", insert_id="i", nanoseconds=1),
        an_entry("a", insert_id="j"),
    ]
    assert len({each.key for each in same}) == 1
    assert len({each.key for each in [*same, *others]}) == 4


def test_lines_of_one_microsecond_keep_the_order_in_which_they_were_written() -> None:
    """A traceback's are written at once, and ids grow with nothing."""
    ids = zip(TRACEBACK, "zma", strict=True)
    entries = [
        an_entry(text, insert_id=insert_id, nanoseconds=100 * number)
        for number, (text, insert_id) in enumerate(ids)
    ]
    assert texts(unsent(reversed(entries))) == TRACEBACK


def test_lines_are_in_order_and_blank_ones_are_none() -> None:
    entries = [an_entry("b", second=2), an_entry(" \n", second=1), an_entry("a", second=0)]
    assert texts(unsent(entries)) == ["a", "b"]
