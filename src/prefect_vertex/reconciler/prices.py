"""The price list for estimates: the package's own, or the one that a setting names."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from prefect_vertex.chronicle.prices import PriceList, parse_prices
from prefect_vertex.errors import SetupError

_PACKAGED = "prices.json"


def read_prices(path: str | None) -> PriceList:
    """Read the price list.

    Args:
        path: Of a JSON file in the form of the package's own; None for that one.

    Raises:
        SetupError: It is not there, or no price list.
    """
    if not path:
        packaged = resources.files("prefect_vertex.chronicle").joinpath(_PACKAGED)
        return parse_prices(packaged.read_text(encoding="utf-8"), _PACKAGED)
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise SetupError(
            f"The price list {path} cannot be read: {error}.",
            hint="Correct or unset PREFECT_INTEGRATIONS_VERTEX_PRICES.",
        ) from error
    return parse_prices(text, path)
