"""Batches of dynamical networks: describe one as a params file or in Python, run it, read its HDF5 file.

import petabatch

run = petabatch.load("params/natural_images.toml")
petabatch.run(run, "runs/first")
with petabatch.open("runs/first") as found:
    print(found.weights("dictionary")[-1].shape)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from petabatch.version import __version__ as __version__

if TYPE_CHECKING:
    from petabatch.coding import encode as encode
    from petabatch.results import open as open
    from petabatch.simulation import read as load
    from petabatch.simulation import resume as resume
    from petabatch.simulation import run as run
    from petabatch.spec.network import Network as Network

_PLACES = {
    "Network": ("petabatch.spec.network", "Network"),
    "encode": ("petabatch.coding", "encode"),
    "load": ("petabatch.simulation", "read"),
    "open": ("petabatch.results", "open"),
    "resume": ("petabatch.simulation", "resume"),
    "run": ("petabatch.simulation", "run"),
}
__all__ = ["Network", "__version__", "encode", "load", "open", "resume", "run"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that `import petabatch` stays light."""
    if name in ("in_memory", "memory"):  # `memory`, its former name, is part of the public API
        return import_module("petabatch.in_memory")
    if name not in _PLACES:
        raise AttributeError(f"module petabatch has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)
