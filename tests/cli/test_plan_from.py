"""`prefect-vertex plan --from` prints what was launched, and asks nobody but the bucket."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from prefect_vertex._version import __version__
from prefect_vertex.cli.plan import plan
from prefect_vertex.cli.recorded import show_record
from prefect_vertex.cli.usage import WrongUseError
from prefect_vertex.delivery.packing import packed_bootstrap
from prefect_vertex.errors import CodeStoreError, PlanError, PrefectVertexError, SetupError
from prefect_vertex.planning.code import CodeReference
from prefect_vertex.planning.launches import LaunchFacts, build_record, record_text
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.planning.plan import build_plan
from prefect_vertex.planning.spec import Candidate, RunIdentity, RunSpec
from prefect_vertex.vertex.gateways import Gateways
from prefect_vertex.vertex.objects import GcsObjects
from prefect_vertex.vertex.rest import GoogleRest

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Desk = Any

RUN_ID = "0f1e2d3c-1111-4222-8333-444455556666"
Printed = Callable[..., tuple[str, str]]


def a_record(bucket: str = "staging", **facts: Any) -> dict[str, Any]:
    """What a worker keeps of a launch, with a secret in the job."""
    pool = {"container_spec": {"image_uri": "europe-docker.pkg.dev/p/flows/forecast:1"}}
    candidate = Candidate(
        project="forecasts",
        location="europe-west4",
        job_spec={"worker_pool_specs": [pool]},
        command=("prefect", "flow-run", "execute"),
        env={"PREFECT_API_KEY": "pnu_verysecret"},
        secret_env=frozenset({"PREFECT_API_KEY"}),
        code=CodeReference(f"gs://{bucket}/code/x.zip", "ab" * 32),
    )
    identity = RunIdentity(flow_run_id=RUN_ID, flow_run_name="a-run", work_pool_id="a-pool")
    spec = RunSpec(identity=identity, candidates=(candidate,))
    values: dict[str, Any] = {
        "flow_run_id": RUN_ID,
        "flow_run_name": "a-run",
        "flow_name": "forecast",
        "deployment_id": "11111111-2222-4333-8444-555566667777",
        "deployment_name": "nightly",
        "work_pool_name": "vertex-forecast",
        "parameters": {"horizon": 12},
        "packages": {"prefect-vertex": __version__},
        **facts,
    }
    return build_record(
        build_plan(spec, candidate, attempt=1, bootstrap=packed_bootstrap()),
        LaunchFacts(**values),
        job=ResourceName(project="42", location="europe-west4", job_id="7"),
        created_at=datetime(2026, 11, 30, 12, tzinfo=UTC),
        candidates=["europe-west4"],
        bootstrap=packed_bootstrap(),
    )


@pytest.fixture
def a_file(tmp_path: Path) -> Callable[..., str]:
    """A record in a file; its path."""

    def write(**facts: Any) -> str:
        path = tmp_path / "a1.json"
        path.write_text(record_text(a_record(**facts)))
        return str(path)

    return write


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """What the command prints, and what it says beside that; there is no Prefect to be asked."""

    def run(where: str, **options: Any) -> tuple[str, str]:
        capsys.readouterr()
        with temporary_settings({PREFECT_API_URL: None}):
            plan(from_=where, **options)
        out, said = capsys.readouterr()
        return out, said

    return run


def test_a_record_is_printed_with_the_command_that_starts_the_same_again(
    a_file: Callable[..., str], printed: Printed
) -> None:
    out, said = printed(a_file())
    found = json.loads(out)

    assert found["again"]["command"] == (
        "prefect deployment run forecast/nightly --param horizon=12"
    )
    assert f"The same again:\n  {found['again']['command']}\n" in said
    assert found["launch"]["flow_run"]["id"] == RUN_ID
    assert found["launch"]["attempt"] == 1
    assert found["changed"] == []
    assert "was not asked" in found["not_compared"][0]
    assert found["requests"][0]["resource_plan"][0]["machine_type"] == "n1-standard-4"
    assert "verysecret" not in out + said


def test_the_request_is_exact_when_asked_for_in_full(
    a_file: Callable[..., str], printed: Printed
) -> None:
    where = a_file()
    (short,) = json.loads(printed(where)[0])["requests"]
    (whole,) = json.loads(printed(where, full=True)[0])["requests"]

    recorded = json.loads(Path(where).read_text())
    assert whole == {**recorded["request"], "resource_plan": recorded["resource_plan"]}
    (pool,) = short["custom_job"]["job_spec"]["worker_pool_specs"]
    marker = f"<the bootstrap of prefect-vertex {__version__}, "
    assert pool["container_spec"]["command"][2].startswith(marker)


def test_another_version_of_the_package_is_told(
    a_file: Callable[..., str], printed: Printed
) -> None:
    out, said = printed(a_file(packages={"prefect-vertex": "0.0.1", "prefect": "3.9.0"}))

    line = f"prefect-vertex was 0.0.1, and is {__version__} here."
    assert json.loads(out)["changed"][-1] == line
    assert f"changed: {line}\n" in said


def test_the_script_is_one_that_a_shell_can_read_and_holds_no_secret(
    a_file: Callable[..., str], printed: Printed, tmp_path: Path
) -> None:
    script, said = printed(a_file(), output_format="gcloud")
    path = tmp_path / "create.sh"
    path.write_text(script)

    assert subprocess.run(["/bin/sh", "-n", str(path)], check=False).returncode == 0
    assert "attempt 1 of flow run a-run" in script.splitlines()[1]
    assert RUN_ID in script.splitlines()[2]
    assert packed_bootstrap()[:40] in script
    assert packed_bootstrap()[-9:] in script
    assert '"$PREFECT_API_KEY"' in script
    assert "The same again:" in said


def test_a_run_without_a_deployment_is_told_as_a_job(
    a_file: Callable[..., str], printed: Printed
) -> None:
    where = a_file(deployment_id="", deployment_name="")
    again = json.loads(printed(where)[0])["again"]

    quoted = shlex.quote(where)
    assert again["command"] == f"prefect-vertex plan --from {quoted} --format gcloud | sh"
    assert RUN_ID in again["notes"][0]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "There is no file"),
        (b"\x00\xff", "is not a launch record"),
        (b"[1, 2]", "is not a launch record"),
        (b'{"kind": "prefect-vertex/launch", "version": 2}', "of version 2; this prefect-vertex"),
        (b'{"kind": "prefect-vertex/launch", "version": 1}', "its attempt is wrong"),
    ],
)
def test_what_is_no_record_is_said_in_one_line(
    tmp_path: Path, printed: Printed, content: bytes | None, says: str
) -> None:
    path = tmp_path / "some.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PrefectVertexError) as caught:
        printed(str(path))

    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, SetupError if content is None else PlanError)


KINDS: tuple[Any, ...] = (None, True, 7, 0.5, "", "x", "\ud800", [], ["x"], {}, {"a": None})
"""A value of each JSON type, and some that are odd."""


def mutants(value: Any) -> Iterator[Any]:
    """A copy for each node and each other kind, in which that stands in its place; and without."""
    yield from (kind for kind in KINDS if type(kind) is not type(value) or kind != value)
    if isinstance(value, dict):
        for key, item in value.items():
            yield {name: each for name, each in value.items() if name != key}
            yield from ({**value, key: each} for each in mutants(item))
        yield {**value, "a=b \ud800": "x"}
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from ([*value[:index], each, *value[index + 1 :]] for each in mutants(item))


@pytest.mark.parametrize("output_format", ["json", "gcloud"])
@pytest.mark.parametrize("deployment_id", ["", "11111111-2222-4333-8444-555566667777"])
def test_a_record_with_any_part_damaged_is_printed_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output_format: Any, deployment_id: str
) -> None:
    """Never with an error of ours; what is printed can be written."""
    record = a_record(deployment_id=deployment_id)
    record["flow_run"]["omitted_parameters"] = {"data": 20_000}
    path = tmp_path / "a1.json"
    refused = printed = 0
    for mutant in mutants(record):
        path.write_text(json.dumps(mutant))
        try:
            show_record(str(path), output_format, full=False)
        except PrefectVertexError:
            refused += 1
        else:
            out, said = capsys.readouterr()
            assert (out + said).encode()
            printed += 1

    assert refused > 100
    assert printed > 100


@pytest.mark.parametrize("output_format", ["json", "gcloud"])
@pytest.mark.parametrize("levels", [100, 400, 900, 100_000])
def test_a_record_that_is_nested_deeply_is_printed_or_refused(
    tmp_path: Path, output_format: Any, levels: int
) -> None:
    text = json.dumps({**a_record(), "parameters": "DEEP"})
    text = text.replace('{"horizon": 12}', f'{{"p": {"[" * levels}{"]" * levels}}}')
    path = tmp_path / "a1.json"
    path.write_text(text)
    try:
        show_record(str(path), output_format, full=False)
        refusal = ""
    except PlanError as error:
        refusal = str(error)

    assert "nested too deeply" in refusal or (not refusal and levels < 1_000)


def test_the_name_of_a_secret_is_no_shell_code(tmp_path: Path, printed: Printed) -> None:
    text = record_text(a_record()).replace('"PREFECT_API_KEY"', '"A}$(touch x)"')
    path = tmp_path / "a1.json"
    path.write_text(text)
    with pytest.raises(PlanError, match="its request is wrong"):
        printed(str(path), output_format="gcloud")


@pytest.mark.parametrize("where", ["", " "])
def test_an_empty_name_is_refused_as_one(printed: Printed, where: str) -> None:
    with pytest.raises(WrongUseError, match="--from names no launch record"):
        printed(where)


def test_only_one_subject_can_be_named(printed: Printed) -> None:
    with pytest.raises(WrongUseError, match="Name only one of --pool"):
        printed("a1.json", pool="a")


@pytest.mark.parametrize(
    "options",
    [
        {"pool": "a"},
        {"deployment": "a/b"},
        {"flow_run": RUN_ID},
        {"job_variable": ("region=x",)},
        {"quota": True},
    ],
    ids=str,
)
def test_options_that_do_not_go_with_it_are_refused(
    options: dict[str, Any], printed: Printed
) -> None:
    with pytest.raises(WrongUseError, match="--from"):
        printed("gs://staging/launches/x/a1.json", **options)


# --- in a bucket ----------------------------------------------------------------------------------


def put(uri: str, content: bytes) -> None:
    gateways = Gateways(submissions_per_minute=1, reads_per_minute=1)
    anyio.run(GcsObjects(GoogleRest(gateways.credentials)).put_once, uri, content)


@pytest.mark.e2e
def test_a_record_in_a_bucket_says_also_whether_its_code_is_still_there(
    desk: Desk, printed: Printed
) -> None:
    where = f"gs://desk-bucket/launches/{RUN_ID}/a1.json"
    put(where, record_text(a_record("desk-bucket")).encode())

    gone = json.loads(printed(where)[0])
    put("gs://desk-bucket/code/x.zip", b"{}")
    kept = json.loads(printed(where)[0])

    assert gone["changed"] == [
        "The code archive is gone: gs://desk-bucket/code/x.zip. Stage the code again."
    ]
    assert kept["changed"] == []
    assert len(kept["not_compared"]) == 1


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["desk-bucket/launches/none/a1.json", "no-such-bucket/a1.json"])
def test_a_record_that_is_not_in_the_bucket_is_named(
    desk: Desk, printed: Printed, name: str
) -> None:
    with pytest.raises(CodeStoreError, match=f"Could not read gs://{name}: there is no such"):
        printed(f"gs://{name}")
