"""The local pool: as many processes as slots, and no unit's end is another's.

Units here are closures: one that the module names would be found by importing it, with all of what
it imports itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_vertex import replica
from prefect_vertex.planning.gang import slot_environment
from prefect_vertex.planning.sizing import WorkProfile, plan_machine
from prefect_vertex.replica.pool import (
    child_environments,
    map_slots,
    measured_profile,
)
from prefect_vertex.replica.slots import LocalSlots
from prefect_vertex.replica.unit import UnitProcess, UnitResult

THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False


def wait_for(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"still not after {seconds} s"
        time.sleep(0.02)


# --- units ----------------------------------------------------------------------------------------


def test_results_stand_in_the_order_of_the_items_whatever_their_weight() -> None:
    results = map_slots(lambda n: n * n, [3, 1, 2], weight=float, slots=2)
    assert [each.value for each in results] == [9, 1, 4]
    assert [each.index for each in results] == [0, 1, 2]
    assert all(each.ok and each.seconds >= 0 for each in results)


def test_the_heaviest_unit_begins_first_and_equal_ones_as_they_were_given() -> None:
    begun: list[int] = []
    weights = [1, 5, 2, 5, 3]
    map_slots(
        lambda n: n,
        range(5),
        weight=lambda n: weights[n],
        slots=1,
        on_result=lambda result: begun.append(result.index),
    )
    assert begun == [1, 3, 4, 2, 0]


def test_no_items_are_no_results() -> None:
    assert map_slots(str, [], slots=3) == []


FAILURES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "an exception": (lambda n: 1 // 0, "ZeroDivisionError: "),
    "a message of two lines": (lambda n: int("x\n2", 5 * n), "ValueError: "),
    "an exit": (lambda n: sys.exit("enough"), "SystemExit: enough"),
    "a value that cannot travel": (lambda n: sys._getframe(), "cannot be pickled"),
    "the out-of-memory killer": (
        lambda n: os.kill(os.getpid(), signal.SIGKILL),
        "SIGKILL (if nobody did that",
    ),
    "a crash": (lambda n: os.kill(os.getpid(), signal.SIGSEGV), "its process was ended by SIGSEGV"),
    "a real-time signal": (
        lambda n: os.kill(os.getpid(), 40),
        "its process was ended by signal 40",
    ),
    "an exit past Python": (lambda n: os._exit(5), "its process ended with exit code 5"),
}


@pytest.mark.parametrize(("failing", "error"), FAILURES.values(), ids=FAILURES)
def test_a_failed_unit_is_recorded_and_the_others_go_on(
    failing: Callable[[Any], Any], error: str
) -> None:
    def unit(number: int) -> int:
        return failing(number) if number == 1 else number

    results = map_slots(unit, range(4), slots=1)

    assert [each.value for each in results] == [0, None, 2, 3]
    assert [each.ok for each in results] == [True, False, True, True]
    assert error in results[1].error
    assert "\n" not in results[1].error


def test_the_traceback_of_a_failed_unit_is_kept() -> None:
    (result,) = map_slots(lambda item: item["missing"], [{"present": 1}], slots=1)
    assert "KeyError" in result.traceback


def test_an_item_that_cannot_travel_is_a_failed_unit() -> None:
    results = map_slots(str, [1, sys._getframe(), 3], slots=2)
    assert [each.value for each in results] == ["1", None, "3"]
    assert "its item cannot be pickled" in results[1].error


def test_large_items_and_values_travel() -> None:
    size = 3_000_000
    results = map_slots(lambda block: block + b"!", [b"x" * size] * 3, slots=2)
    assert [len(each.value or b"") for each in results] == [size + 1] * 3


def test_a_unit_whose_whole_pool_dies_ends_the_work_all_the_same() -> None:
    results = map_slots(lambda n: os.kill(os.getpid(), signal.SIGKILL), range(5), slots=2)
    assert [each.ok for each in results] == [False] * 5


def leave_a_child(fork: Callable[[], int]) -> None:
    """Die at once, and leave a child to which everything open was handed on."""
    if fork() == 0:
        time.sleep(600)
        os._exit(0)
    os._exit(7)


FORKS: dict[str, Callable[[], int]] = {
    "as Python does": os.fork,
    "as a C library does, past Python": lambda: ctypes.PyDLL(None).fork(),
}


@pytest.mark.parametrize("fork", FORKS.values(), ids=FORKS)
def test_a_process_that_died_is_noticed_while_a_child_of_its_lives(fork: Callable[[], int]) -> None:
    results = map_slots(lambda n: leave_a_child(fork) if n == 1 else n, range(4), slots=2)
    assert [each.value for each in results] == [0, None, 2, 3]
    assert results[1].error == "its process ended with exit code 7"


def test_a_program_that_outlives_a_dead_process_does_not_hide_that_it_died() -> None:
    """Nor does one that was handed every open descriptor."""

    def unit(n: int) -> int:
        if n == 1:
            os.posix_spawn("/bin/sleep", ["sleep", "600"], os.environ)
            os._exit(7)
        return n

    results = map_slots(unit, range(4), slots=2)
    assert [each.error for each in results] == ["", "its process ended with exit code 7", "", ""]


def test_a_forked_child_that_returns_does_not_answer_for_its_parent() -> None:
    def unit(n: int) -> str:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return f"{n} of the {'parent' if child else 'child'}"

    results = map_slots(unit, range(3), slots=1)
    assert [each.value for each in results] == [f"{n} of the parent" for n in range(3)]


def test_processes_that_do_not_end_are_waited_for_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Threads that go on, as some libraries leave them, hold no more than one wait in all."""
    waits: list[float] = []
    moments = itertools.count(0, 4)
    clock = SimpleNamespace(monotonic=lambda: next(moments))
    monkeypatch.setattr("prefect_vertex.replica.pool.time", clock)
    monkeypatch.setattr(UnitProcess, "wait", lambda self, seconds: waits.append(seconds))
    map_slots(lambda n: n, range(4), slots=4)
    assert waits == sorted(waits, reverse=True)
    assert waits[0] < 10
    assert waits[3] == 0


def test_processes_are_used_again_and_are_not_more_than_the_slots() -> None:
    results = map_slots(lambda n: os.getpid(), range(8), slots=2)
    pids = {each.value for each in results}
    assert 1 <= len(pids) <= 2
    assert os.getpid() not in pids
    assert not any(is_alive(pid) for pid in pids if pid)


def test_a_callback_that_fails_fails_the_call() -> None:
    def refuse(result: UnitResult[Any]) -> None:
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        map_slots(str, [1, 2], slots=1, on_result=refuse)


def test_no_slots_are_refused() -> None:
    with pytest.raises(ValueError, match="slots is 0"):
        map_slots(str, [1], slots=0)


# --- what the processes are given -----------------------------------------------------------------


def test_threads_are_pinned_before_anything_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand in the environment that the interpreter starts with, of which /proc tells."""
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_VERTEX_SLOTS", "1")
    monkeypatch.setenv("PREFECT_VERTEX_SLOT_CORES", "1")

    (result,) = map_slots(lambda n: Path("/proc/self/environ").read_bytes().split(b"\0"), [0])

    assert {f"{name}=1".encode() for name in THREADS} <= set(result.value or ())


def test_threads_that_are_set_already_stay() -> None:
    (environment,) = child_environments({"OMP_NUM_THREADS": "9"}, LocalSlots(1, 4))
    assert environment["OMP_NUM_THREADS"] == "9"
    assert environment["MKL_NUM_THREADS"] == "4"


@pytest.mark.parametrize(
    ("here", "slots", "threads"),
    [
        pytest.param(LocalSlots(2, 3), None, "3", id="as a profile plans"),
        pytest.param(LocalSlots(7, 1), 2, "3", id="as the caller wants"),
        pytest.param(LocalSlots(7, 1), None, "1", id="as planned"),
    ],
)
def test_the_plan_s_own_pins_give_way_to_other_slots_and_the_user_s_do_not(
    here: LocalSlots, slots: int | None, threads: str
) -> None:
    plan = plan_machine({"machine_type": "n2-standard-8"})
    job = slot_environment(plan, pins=True) | {"MKL_NUM_THREADS": "5"}
    for environment in child_environments(job, here, slots, root=Path("/nonexistent")):
        pins = {name: environment[name] for name in THREADS}
        assert pins == dict.fromkeys(THREADS, threads) | {"MKL_NUM_THREADS": "5"}


@given(st.integers(1, 40), st.integers(1, 8), st.none() | st.integers(1, 60))
def test_slots_of_another_number_share_the_same_cores(
    count: int, cores: int, slots: int | None
) -> None:
    here = LocalSlots(count, cores)
    environments = child_environments({}, here, slots, root=Path("/nonexistent"))
    assert len(environments) == (slots or count)
    threads = sum(int(each["OMP_NUM_THREADS"]) for each in environments)
    assert threads <= max(count * cores, len(environments))


@pytest.mark.parametrize(
    ("visible", "slots", "dealt"),
    [
        ("0,1,2,3", 4, ["0", "1", "2", "3"]),
        ("4,5,6,7", 2, ["4,6", "5,7"]),
        ("0,1,2,3", 1, ["0,1,2,3"]),
        ("0,1", 3, ["0", "1", "0"]),
    ],
)
def test_gpus_are_dealt_out_to_the_slots(visible: str, slots: int, dealt: list[str]) -> None:
    environment = {"CUDA_VISIBLE_DEVICES": visible}
    found = child_environments(environment, LocalSlots(slots, 1))
    assert [each["CUDA_VISIBLE_DEVICES"] for each in found] == dealt


def test_a_script_that_only_prefect_can_load_runs_in_the_processes_too(tmp_path: Path) -> None:
    """Prefect gives a script another module's name a made-up one, which no process can import."""
    from prefect.utilities.importtools import load_script_as_module

    script = tmp_path / "json.py"
    script.write_text(
        "class Result:\n    value = 2\n\n\n"
        "def inner(n):\n    made = Result()\n    made.value *= n\n    return made\n\n\n"
        "def unit(n):\n    return inner(n)\n",
        encoding="utf-8",
    )
    before = list(sys.path)
    try:
        module: Any = load_script_as_module(str(script))
        results = map_slots(partial(module.unit), [1, 2], slots=1)
    finally:
        sys.path[:] = before
    assert [each.error for each in results] == ["", ""]
    assert [each.value.value for each in results if each.value] == [2, 4]
    assert all(isinstance(each.value, module.Result) for each in results)


def test_items_of_such_a_script_may_go_to_a_function_of_another_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.utilities.importtools import load_script_as_module

    (tmp_path / "library_of_sizes.py").write_text("def size(item):\n    return item.size\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "flows").mkdir()
    script = tmp_path / "flows" / "json.py"
    script.write_text("class Item:\n    size = 3\n")
    module: Any = load_script_as_module(str(script))
    (result,) = map_slots(importlib.import_module("library_of_sizes").size, [module.Item()])

    assert (result.error, result.value) == ("", 3)


def test_what_units_need_is_measured() -> None:
    def unit(seconds: float) -> int:
        held = bytearray(40_000_000)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
        return len(held)

    profile = measured_profile(map_slots(unit, [0.05, 0.2, 0.3], slots=1))

    assert profile is not None
    assert profile.peak_memory_bytes is not None
    assert profile.peak_memory_bytes > 40_000_000
    assert profile.seconds_per_unit is not None
    assert profile.seconds_per_unit >= 0.2


def test_what_was_measured_plans_the_rest_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units that need more cores than the plan thought have more threads, and so fewer slots."""
    monkeypatch.setattr("prefect_vertex.replica.slots._cores", lambda root, cpus: 9)
    monkeypatch.setenv("PREFECT_VERTEX_SLOTS", "8")
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    profile = WorkProfile(cores=4, peak_memory_bytes=1)

    def unit(number: int) -> tuple[int, str]:
        return os.getpid(), os.environ["OMP_NUM_THREADS"]

    results = map_slots(unit, range(12), profile=profile)

    assert replica.current().slots_for(profile) == 2
    assert replica.current().slots_for(None) == replica.current().slots == 8
    assert len({each.value[0] for each in results if each.value}) <= 2
    assert {each.value[1] for each in results if each.value} == {"4"}


def test_units_that_all_failed_measure_nothing() -> None:
    assert measured_profile(map_slots(lambda n: 1 // 0, [1], slots=1)) is None


# --- the end of the parent ------------------------------------------------------------------------

PARENT = """
    import pathlib, signal, sys, time
    from prefect_vertex.replica.pool import map_slots

    class Terminated(BaseException):
        pass

    def terminate(*_):
        raise Terminated

    def unit(number):
        import os, subprocess
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (pathlib.Path(sys.argv[1]) / f"{os.getpid()}-{child.pid}").touch()
        time.sleep(600)

    if sys.argv[2] == "handled":
        signal.signal(signal.SIGTERM, terminate)
    else:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        map_slots(unit, range(4), slots=2)
    except (KeyboardInterrupt, Terminated):
        sys.exit(3)
"""


@pytest.mark.parametrize(
    ("handling", "number", "code"),
    [
        ("handled", signal.SIGINT, 3),
        ("handled", signal.SIGTERM, 3),
        ("default", signal.SIGTERM, -signal.SIGTERM),
        ("default", signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_the_end_of_the_parent_is_that_of_all_that_it_started(
    handling: str, number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """Even of one that was killed, and of what the units had started themselves."""
    script = tmp_path / "parent.py"
    script.write_text(textwrap.dedent(PARENT), encoding="utf-8")
    started = tmp_path / "started"
    started.mkdir()
    parent = subprocess.Popen([sys.executable, str(script), str(started), handling])
    try:
        wait_for(lambda: len(list(started.iterdir())) == 2)
        pids = [int(pid) for path in started.iterdir() for pid in path.name.split("-")]
        parent.send_signal(number)
        assert parent.wait(20) == code
        wait_for(lambda: not any(is_alive(pid) for pid in pids))
    finally:
        with contextlib.suppress(ProcessLookupError):
            parent.kill()
        parent.wait()
