"""How env values travel: as they are, escaped, or packed; and what is too much."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prefect_vertex.delivery.packing import packed_bootstrap
from prefect_vertex.errors import PlanError
from prefect_vertex.planning.environment import (
    LARGE_BYTES,
    Environment,
    drafted_entries,
    merged_environment,
    split_entries,
)
from prefect_vertex.planning.limits import MAX_ENV_BYTES, MAX_STRING_BYTES
from prefect_vertex.planning.packed import MAX_PART_BYTES, is_part, pack, unpacking
from prefect_vertex.planning.plan import MASK, JobPlan

APlan = Callable[..., JobPlan]

SHOW = "import json,os;print(json.dumps(dict(os.environ)))"


def merged(
    common: Mapping[str, str],
    own: Any = None,
    *,
    packs: bool = True,
    used: tuple[str, ...] = (),
) -> Environment:
    return merged_environment(
        own, common=common, platform={"P": "1"}, path="env", used=used, packs=packs
    )


def seen_by_the_code(plan: JobPlan, pool: int = 0) -> dict[str, str]:
    """The environment that the pool's container has once its bootstrap has begun."""
    container = plan.request.custom_job.job_spec.worker_pool_specs[pool].container_spec
    given = {entry.name: entry.value for entry in container.env}
    done = subprocess.run(
        [sys.executable, "-I", "-S", *list(container.command)[1:3]],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **given},
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    seen: dict[str, str] = json.loads(done.stdout)
    return seen


# --- packed --------------------------------------------------------------------------------------


def test_what_is_packed_arrives_as_it_was_written_and_leaves_nothing_else(a_plan: APlan) -> None:
    wild = {"DOLLARS": "$(HOME) $$ $x", "LARGE": "ä" * 20_000, "LINES": "a\nb", "EMPTY": ""}
    plan = a_plan(env=wild, bootstrap=SHOW)
    seen = seen_by_the_code(plan)
    assert {name: seen[name] for name in wild} == wild
    assert not [name for name in seen if is_part(name)]
    assert plan.packed_env == {"DOLLARS", "LARGE"}


def test_a_hundred_and_fifty_variables_arrive(a_plan: APlan) -> None:
    many = {f"V{number}": str(number) for number in range(150)}
    plan = a_plan(env=many, bootstrap=SHOW)
    container = plan.request.custom_job.job_spec.worker_pool_specs[0].container_spec
    assert len(container.env) <= 100
    assert seen_by_the_code(plan).items() >= many.items()


def test_several_parts_are_joined_in_their_order(a_plan: APlan) -> None:
    noise = {f"N{number}": os.urandom(50_000).hex() for number in range(4)}
    plan = a_plan(env=noise, bootstrap=SHOW)
    container = plan.request.custom_job.job_spec.worker_pool_specs[0].container_spec
    parts = [entry for entry in container.env if is_part(entry.name)]
    assert len(parts) > 2
    assert all(len(entry.value) <= MAX_PART_BYTES for entry in parts)
    assert seen_by_the_code(plan).items() >= noise.items()


def test_the_real_bootstrap_runs_behind_it(a_plan: APlan, tmp_path: Path) -> None:
    """The script of setup_command holds a dollar sign, so it is packed itself."""
    plan = a_plan(
        env={"PRICE": "5$", "TMPDIR": str(tmp_path)},
        setup_command=['export FULL="$PRICE each"'],
        command=("sh", "-c", 'printf "%s" "$FULL"'),
        python_command=(sys.executable, "-I", "-S"),
        bootstrap=packed_bootstrap(),
    )
    container = plan.request.custom_job.job_spec.worker_pool_specs[0].container_spec
    given = {entry.name: entry.value for entry in container.env}
    done = subprocess.run(
        list(container.command),
        env={"PATH": os.environ["PATH"], **given},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert plan.packed_env == {"PRICE", "PREFECT_VERTEX_SETUP_COMMAND"}
    assert (done.stdout, done.returncode) == ("5$ each", 0), done.stderr


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=20))
def test_equal_values_give_equal_parts_without_a_dollar_sign(values: dict[str, str]) -> None:
    parts = pack(values)
    assert parts == pack(dict(reversed(values.items())))
    assert "$" not in "".join(parts.values()) + unpacking(len(parts))
    assert bool(parts) == bool(values)


def test_nothing_to_pack_needs_nothing_to_unpack(a_plan: APlan) -> None:
    container = a_plan(env={"A": "1"}).request.custom_job.job_spec.worker_pool_specs[0]
    assert list(container.container_spec.command)[:3] == ["python3", "-c", "pass"]


def test_a_value_that_the_platform_expands_into_others_stays_where_it_can_see_it() -> None:
    made = merged({"A": "$$", "B": "$"}, [{"name": "OWN", "value": "$(A)"}], used=("--x=$(B)",))
    assert {entry["name"]: entry["value"] for entry in made.entries} == {
        "A": "$$$$",
        "B": "$",
        "P": "1",
        "OWN": "$(A)",
    }


def test_the_templates_own_values_are_packed_only_if_nothing_in_them_expands() -> None:
    own = {"PLAIN": "x" * LARGE_BYTES, "EXPANDS": "$(P)" * LARGE_BYTES}
    assert merged({}, {**own, "EXPANDS": "$(P)" + "x" * LARGE_BYTES}).packed == {"PLAIN"}


def test_what_the_worker_sets_stays_to_be_read() -> None:
    made = merged({f"V{number}": "x" for number in range(120)})
    assert [entry["name"] for entry in made.entries] == ["P", "PREFECT_VERTEX_ENV_0"]


def test_a_secret_is_not_shown_when_it_travels_packed(a_plan: APlan) -> None:
    secret = {"PREFECT_API_KEY": "pnu_$1"}
    plan = a_plan(env=secret, secret_env=frozenset(secret))
    sent = json.loads(plan.as_json())["custom_job"]["job_spec"]["worker_pool_specs"][0]
    packed = [entry for entry in sent["container_spec"]["env"] if is_part(entry["name"])]
    assert [entry["value"] for entry in packed] == [MASK]
    assert pack(secret)["PREFECT_VERTEX_ENV_0"] not in plan.as_json()


# --- without a bootstrap -------------------------------------------------------------------------


def test_without_a_bootstrap_dollar_signs_are_doubled_where_they_would_be_rewritten() -> None:
    made = merged({"A": "$(B) $$ $c"}, packs=False)
    assert made.entries[0] == {"name": "A", "value": "$$(B) $$$$ $c"}
    assert made.parts == 0


def test_a_server_of_its_own_gets_the_env_escaped_and_too_much_of_it_is_refused(
    a_plan: APlan,
) -> None:
    server = {"container_spec": {"image_uri": "server:1"}}
    plan = a_plan(env={"A": "$(B)"}, spec={"worker_pool_specs": [server, {}, server]})
    pools = plan.request.custom_job.job_spec.worker_pool_specs
    assert "$$(B)" in [entry.value for entry in pools[2].container_spec.env]
    many = {f"V{number}": "x" * number for number in range(120)}
    with pytest.raises(PlanError, match=r"only the bootstrap could unpack more.*V119 \(124 bytes"):
        a_plan(env=many, spec={"worker_pool_specs": [server, {}, server]})


# --- too much ------------------------------------------------------------------------------------


@pytest.mark.parametrize("packs", [True, False])
def test_more_than_a_job_can_carry_is_refused_by_the_largest_names(packs: bool) -> None:  # noqa: FBT001
    common = {f"V{number}": "x" * 100_000 for number in range(5)} | {"TOP": "y" * 120_000}
    with pytest.raises(PlanError, match=r"TOP \(120004 bytes\), V0 \(100003 bytes\), V1") as caught:
        merged(common, packs=packs)
    assert caught.value.variable == "env"
    assert str(MAX_ENV_BYTES) in str(caught.value)
    assert "yyy" not in str(caught.value)


def test_entries_that_cannot_be_packed_are_counted() -> None:
    own = {f"V{number}": "$(P)" for number in range(101)}
    with pytest.raises(PlanError, match="env has 102 entries; Vertex AI takes 100"):
        merged({}, own)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("A", "\0", "holds a NUL character"),
        ("A", "\ud800", "lone surrogate"),
        ("A", "x" * MAX_STRING_BYTES, "env A has 131073 bytes"),
        ("A\n", "x", "letters, digits and underscores"),
        ("PREFECT_VERTEX_ENV_0", "x", "keeps for itself"),
    ],
)
def test_what_no_process_can_have_is_refused_without_its_value(
    name: str, value: str, words: str
) -> None:
    with pytest.raises(PlanError, match=words) as caught:
        merged({name: value})
    assert caught.value.variable == "env"
    assert "\n" not in str(caught.value)


# --- drafts --------------------------------------------------------------------------------------

NAMES = st.sampled_from(["A", "B", "C"])
TEXTS = st.text("$()Ax", max_size=6)


@given(st.dictionaries(NAMES, TEXTS), st.dictionaries(NAMES, st.none() | TEXTS))
def test_drafting_an_env_for_the_patch_changes_nothing(
    common: dict[str, str], own: dict[str, str | None]
) -> None:
    kept, rest = split_entries(drafted_entries(own, common, "env"), common, "env")
    drafted, direct = merged(kept, rest, packs=False), merged(common, own, packs=False)
    assert sorted(map(str, drafted.entries)) == sorted(map(str, direct.entries))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(NAMES, TEXTS))
def test_the_env_variable_is_literal_whatever_stands_in_it(
    a_plan: APlan, values: dict[str, str]
) -> None:
    """Whether escaped or packed, no reference in it is one for the platform."""
    container = a_plan(env=values).request.custom_job.job_spec.worker_pool_specs[0].container_spec
    for entry in container.env:
        assert "$" not in entry.value
