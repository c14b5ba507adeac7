from __future__ import annotations

import urllib.request
from pathlib import Path

import output
import pytest


def test_files_are_written_to_a_folder_over_older_ones(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder"
    output.write_files(str(target), {"a.txt": b"old"})
    written = output.write_files(str(target), {"a.txt": b"new", "b.txt": b"b"})
    assert written == [str(target / "a.txt"), str(target / "b.txt")]
    assert [Path(path).read_bytes() for path in written] == [b"new", b"b"]


@pytest.mark.parametrize("slash", ["", "/"])
def test_files_are_written_to_a_bucket_below_the_prefix(
    storage: str, monkeypatch: pytest.MonkeyPatch, slash: str
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage)
    written = output.write_files(f"gs://results/some/run{slash}", {"a.txt": slash.encode()})
    path = "/storage/v1/b/results/o/some%2Frun%2Fa.txt?alt=media"
    with urllib.request.urlopen(storage + path, timeout=5) as answer:  # noqa: S310 - a test server
        assert answer.read() == slash.encode()
    assert written == ["gs://results/some/run/a.txt"]


def test_a_uri_without_a_bucket_is_an_error_that_says_what_to_give() -> None:
    with pytest.raises(ValueError, match="must be a folder or gs://bucket/prefix; got 'gs://'"):
        output.write_files("gs://", {"a.txt": b""})


def test_results_go_below_the_jobs_checkpoint_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_VERTEX_CHECKPOINT_DIR", "gs://staging/checkpoints/run/")
    assert output.default_target() == "gs://staging/checkpoints/run/output"


def test_outside_a_job_results_go_to_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_VERTEX_CHECKPOINT_DIR", raising=False)
    assert output.default_target() == "output"


def test_a_file_in_a_folder_of_the_target_is_read_back_by_the_place_that_was_given(
    tmp_path: Path,
) -> None:
    (place,) = output.write_files(str(tmp_path), {"parts/0-of-1.parquet": b"part"})
    assert place == str(tmp_path / "parts" / "0-of-1.parquet")
    assert output.read_file(place) == b"part"


def test_a_file_in_a_bucket_is_read_back_by_the_place_that_was_given(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage)
    (place,) = output.write_files("gs://results/read", {"parts/0-of-1.parquet": b"part"})
    assert place == "gs://results/read/parts/0-of-1.parquet"
    assert output.read_file(place) == b"part"


def test_a_place_where_nothing_was_written_is_an_error_that_names_it(
    storage: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage)
    for place in ("gs://results/nothing/here", str(tmp_path / "nothing")):
        with pytest.raises(FileNotFoundError, match=place):
            output.read_file(place)
