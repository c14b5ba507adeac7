"""Pickles of a flow's own functions, for processes that have not loaded its script."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


def dumps_for(function: Callable[..., Any]) -> Callable[[Any], bytes]:
    """A `dumps` for it and its items, whose pickles a process with this `sys.path` can load.

    Prefect loads a flow's script under a name that may be importable nowhere, or name another file
    (`load_script_as_module`, 3.9.1). What such a module defines is pickled by value from then on.
    """
    # Late: importing this package may not cost what only its local pool needs.
    import cloudpickle

    module = _module_of(function)
    if module is not None and not _is_importable(module):
        cloudpickle.register_pickle_by_value(module)
    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    return dumps


def _module_of(function: Callable[..., Any]) -> ModuleType | None:
    while isinstance(function, functools.partial):
        function = function.func
    return sys.modules.get(str(getattr(function, "__module__", "")))


def _is_importable(module: ModuleType) -> bool:
    """Whether a fresh interpreter finds the same module by its name."""
    name, file = module.__name__, getattr(module, "__file__", None)
    if name == "__main__" or file is None:
        return True  # pickled by value anyway, or built in
    top = name.partition(".")[0]
    finders = [find for each in sys.meta_path if (find := getattr(each, "find_spec", None))]
    spec = next((found for find in finders if (found := find(top, None))), None)
    if spec is None:
        return False
    if name != top or not spec.origin:
        return True
    return Path(spec.origin).resolve() == Path(file).resolve()
