"""Pickles of what is a flow's own, for processes that have not loaded its script, or as another."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

# Prefect's name for a script that is called like a loaded module: a digest of its path follows, and
# each replica unpacks the code below a path of its own.
_MADE_UP = "__prefect_loader_"


def dumps(value: Any) -> bytes:
    """A pickle that also another replica can load, whatever Prefect calls the flow's script there.

    What such a script defines is pickled by value.
    """
    # Late: importing this package may not cost what only its local pool and its meetings need.
    import cloudpickle

    for name, module in list(sys.modules.items()):
        if name.startswith(_MADE_UP):
            cloudpickle.register_pickle_by_value(module)
    content: bytes = cloudpickle.dumps(value)
    return content


def dumps_for(function: Callable[..., Any]) -> Callable[[Any], bytes]:
    """A `dumps` for it and its items, whose pickles a process with this `sys.path` can load.

    Prefect loads a flow's script under a name that may be importable nowhere, or name another file
    (`load_script_as_module`, 3.9.1). What such a module defines is pickled by value from then on.
    """
    module = _module_of(function)
    if module is not None and not _is_importable(module):
        import cloudpickle

        cloudpickle.register_pickle_by_value(module)
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
