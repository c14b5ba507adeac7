"""No traceback is written as Python writes it: httpx's errors quote the API's address whole."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import httpx
import pytest

from prefect_vertex.cli import app as command_line
from prefect_vertex.reconciler.faults import log_fault

SOURCE = Path(__file__).parents[2] / "src" / "prefect_vertex"
AS_IT_IS = re.compile(r"\.exception\(\"|exc_info=(?!None)|print_exc\(")


def refused() -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://me:hunter2@host/api/flow_runs")
    with pytest.raises(httpx.HTTPStatusError) as caught:
        httpx.Response(418, request=request).raise_for_status()
    return caught.value


def test_an_unforeseen_fault_is_logged_in_full_but_for_the_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("prefect_vertex.of_this_test")
    log_fault(logger, refused(), "A step for flow run %s failed.", "100 %")
    (record,) = caplog.records

    text = logging.Formatter().format(record)
    assert text.startswith("A step for flow run 100 % failed.\nTraceback (most recent call last):")
    assert "http://…@host/api/flow_runs" in text
    assert "hunter2" not in text
    assert record.levelno == logging.ERROR


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda file: file.stem)
def test_no_module_logs_a_traceback_as_it_is(file: Path) -> None:
    """The emulator knows no address but its own."""
    if "emulator" not in file.relative_to(SOURCE).parts:
        assert AS_IT_IS.findall(file.read_text()) == []


def test_the_command_line_tells_an_unforeseen_fault_without_the_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise refused()

    monkeypatch.setattr(command_line, "app", fail)
    with pytest.raises(SystemExit) as end:
        command_line.main()

    told = capsys.readouterr().err
    assert end.value.code == 1
    assert "HTTPStatusError" in told
    assert "in fail" in told
    assert "hunter2" not in told
