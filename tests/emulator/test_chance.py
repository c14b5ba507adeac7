"""The same seed gives the same jobs; lifelike durations stay where they were seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import JobServiceAsyncClient
from google.cloud.aiplatform_v1.types import CustomJob

from prefect_vertex.emulator import FAST, LIFELIKE
from prefect_vertex.emulator.chance import Chance


@pytest.mark.anyio
async def test_same_seed_gives_the_same_ids_and_host_names(
    start_emulator: Callable[..., Any],
    connect: Callable[[str], JobServiceAsyncClient],
    a_job: Callable[..., CustomJob],
    parent: str,
) -> None:
    async def run(seed: int | None) -> list[tuple[str, str]]:
        emulator = await start_emulator(seed=seed)
        client = connect(emulator.address)
        seen = []
        for _ in range(2):
            job = a_job("sh", "-c", "echo $HOSTNAME")
            created = await client.create_custom_job(parent=parent, custom_job=job)
            await emulator.job(created.name).wait_for_end()
            seen.append((created.name, emulator.job(created.name).output().stdout))
        return seen

    first, again, other, free = [await run(seed) for seed in (7, 7, 8, None)]

    assert first == again
    assert len({name for run in (first, other, free) for name, _ in run}) == 6


def test_durations_depend_on_seed_and_job_alone() -> None:
    def drawn(seed: int, job: str) -> Any:
        return LIFELIKE.drawn(Chance(seed).of_job(job))

    assert drawn(1, "a") == drawn(1, "a")
    assert len({drawn(1, "a"), drawn(1, "b"), drawn(2, "a")}) == 3


def test_lifelike_job_is_running_after_three_and_a_half_to_five_minutes() -> None:
    chance = Chance(0)
    for number in range(500):
        drawn = LIFELIKE.drawn(chance.of_job(str(number)))
        seconds = drawn.queued_seconds + drawn.provisioning_seconds + drawn.starting_seconds
        assert 210 <= seconds <= 300
        assert 4 <= drawn.queued_seconds <= 6
        assert 45 <= drawn.error_delay_seconds <= 75


def test_fast_durations_are_not_drawn() -> None:
    assert FAST.drawn(Chance(0).of_job("a")) == FAST
