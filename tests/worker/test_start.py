"""What is wrong with a worker's settings is told before it starts, one line each."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from prefect_vertex.errors import SetupError
from prefect_vertex.settings import PREFIX, VertexSettings, read_settings, unknown_settings
from prefect_vertex.vertex.channel import EMULATOR_VARIABLE
from prefect_vertex.worker import VertexWorker

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No `.env` or `prefect.toml` of the working directory is read."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (EMULATOR_VARIABLE, "garbage", "is not an address"),
        (f"{PREFIX}SUBMISSIONS_PER_MINUTE", "abc", "should be a valid number"),
        (f"{PREFIX}TICK_SECONDS", "0.1", "greater than or equal to 1"),
        (f"{PREFIX}EXTRA_LOCATIONS", "europe-west4", "is not a list"),
    ],
)
async def test_a_wrong_setting_ends_the_worker_with_one_line(
    name: str,
    value: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(SystemExit) as ended:
        await VertexWorker(work_pool_name="a-pool").start()

    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 1
    assert f"{name}={value!r}" in line
    assert words in line


def test_all_wrong_settings_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}TICK_SECONDS", "soon")
    monkeypatch.setenv(f"{PREFIX}LEASE_SECONDS", "1")

    with pytest.raises(SetupError) as told:
        read_settings()

    assert f"{PREFIX}TICK_SECONDS='soon'" in str(told.value)
    assert f"{PREFIX}LEASE_SECONDS='1'" in str(told.value)


async def test_a_misspelt_setting_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(f"{PREFIX}TICK", "1")
    monkeypatch.setenv(EMULATOR_VARIABLE, "garbage")

    with caplog.at_level(logging.WARNING), pytest.raises(SystemExit):
        await VertexWorker(work_pool_name="a-pool").start()

    (text,) = [record.getMessage() for record in caplog.records]
    assert text.startswith(f"{PREFIX}TICK is no setting")
    assert text.endswith(f"{PREFIX}TICK_SECONDS?")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("TICKSECONDS", "TICK_SECONDS"),
        ("submissions", "SUBMISSIONS_PER_MINUTE"),
        ("LEASE", "LEASE_SECONDS"),
    ],
)
def test_the_closest_setting_is_named(given: str, meant: str) -> None:
    (line,) = unknown_settings({f"{PREFIX}{given}": "1"})

    assert f"Did you mean {PREFIX}{meant}?" in line


def test_known_settings_and_other_products_are_not_complained_about() -> None:
    known = {f"{PREFIX}{name.upper()}": "1" for name in VertexSettings.model_fields}

    assert unknown_settings({**known, "PREFECT_INTEGRATIONS_GCP_TICK": "1", "PATH": "/"}) == []
