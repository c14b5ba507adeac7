"""A parameter either arrives in the container as it was given, or is refused by its name."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from prefect import flow
from pydantic import BaseModel, SecretStr

from prefect_vertex.errors import PlanError
from prefect_vertex.runs.parameters import check_parameters


class Kind(Enum):
    """A choice."""

    DAILY = "daily"


class Wish(BaseModel):
    """A model, with a secret or without."""

    months: int = 1
    at: dt.date = dt.date(2024, 1, 1)
    level: float = 0.5
    key: SecretStr | None = None


@dataclass
class Span:
    """A dataclass."""

    begin: float
    end: float


@flow
def main(x: Any = None) -> None:
    """Never run."""


UTC = dt.UTC
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        0.1,
        "",
        "text",
        [1, "a", None],
        (1, 2.5),
        {1, 2},
        {"a": {"b": [1.5]}},
        {1: "a"},
        OrderedDict(a=1),
        Kind.DAILY,
        dt.date(2024, 2, 29),
        dt.datetime(2024, 2, 29, 12, 0, 0, 5, tzinfo=UTC),
        dt.timedelta(days=1, microseconds=1),
        uuid.UUID(int=7),
        Path("data/a.csv"),
        Decimal("1.5"),
        b"bytes",
        Wish(months=2),
        Span(0.0, 1.0),
        [Wish(), {"at": dt.date(2024, 1, 1)}],
        np.float64(0.5),
        pd.Timestamp("2024-02-29"),
    ],
    ids=repr,
)
def test_what_json_can_say_arrives(value: object) -> None:
    check_parameters(main, {"x": value})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param(NAN, "x of flow 'main' is nan", id="NaN"),
        pytest.param(-INF, "x of flow 'main' is -inf", id="infinity"),
        pytest.param({"a": [1.0, NAN]}, r"x\['a'\]\[1\] of flow 'main' is nan", id="nested"),
        pytest.param(threading.Lock(), "x of flow 'main' is of type lock", id="lock"),
        pytest.param(object(), "is of type object", id="object"),
        pytest.param(lambda: 1, "is of type function", id="function"),
        pytest.param(b"\xff", "is of type bytes", id="bytes that are no text"),
        pytest.param(Wish(level=NAN), "is of type Wish", id="model with NaN"),
        pytest.param(Span(0.0, INF), "is of type Span", id="dataclass with infinity"),
        pytest.param(Wish(key=SecretStr("hidden")), "is of type Wish", id="model with a secret"),
        pytest.param(np.arange(3), "is of type ndarray", id="array"),
        pytest.param(np.int64(12), "x of flow 'main' is of type int64", id="NumPy's integer"),
        pytest.param(
            [1, np.int64(12)], r"x\[1\] of flow 'main' is of type int64", id="one of a list"
        ),
        pytest.param(
            {"a": ({"b": object(), "c": 1},)}, r"x\['a'\]\[0\]\['b'\] of", id="deep in others"
        ),
        pytest.param(np.float32(0.1), "is of type float32", id="NumPy's smaller float"),
        pytest.param(np.float64("nan"), "is nan", id="NumPy's NaN"),
        pytest.param(pd.Series([1, 2]), "is of type Series", id="series"),
        pytest.param(pd.DataFrame({"a": [1]}), "is of type DataFrame", id="data frame"),
        pytest.param(pd.NaT, "is of type NaTType", id="no time"),
    ],
)
def test_what_would_arrive_as_another_value_is_refused(value: object, words: str) -> None:
    with pytest.raises(PlanError, match=words) as told:
        check_parameters(main, {"x": value})
    assert "hidden" not in str(told.value)


def test_a_secret_is_sent_to_a_secret_block_and_not_shown() -> None:
    with pytest.raises(PlanError, match="Prefect Secret block") as told:
        check_parameters(main, {"x": SecretStr("hidden")})
    assert "hidden" not in str(told.value)
