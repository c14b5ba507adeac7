"""What a replica says of itself fits where it is kept."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from prefect_vertex.replica.signs import NOTE, read_sign, sign_word
from prefect_vertex.replica.store import Entry


@pytest.mark.parametrize("letter", ["a", '"', "\n", "é", "需", "🔥"])
@pytest.mark.parametrize("said", ["left", "ended_because"])
def test_a_long_reason_is_kept_as_far_as_an_object_s_metadata_hold_it(
    letter: str, said: str
) -> None:
    """A sign that the bucket refused would be no last word: the others would wait for one."""
    text = "its flow run ended Failed: " + letter * 5000

    word = sign_word((1e300, 1e300), told=True, **{said: text})
    read = read_sign(Entry(updated=datetime(2026, 1, 1, tzinfo=UTC), notes={NOTE: word}), 1.0)

    assert len(word.encode()) <= 4096
    assert text.startswith(read.why)
    assert len(read.why) > 300
