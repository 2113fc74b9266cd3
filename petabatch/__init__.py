"""Batches of dynamical networks: describe one as a params file or in Python, run it, read its results.

import petabatch

network = petabatch.load("params/natural_images.toml", ["run.displays=20"])
run = petabatch.run(network, "runs/first")
code = run["layers/V1/A"].at(display=20, slice=5)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from petabatch.version import __version__ as __version__

if TYPE_CHECKING:
    from petabatch import connections as connections
    from petabatch import errors as errors
    from petabatch import in_memory as in_memory
    from petabatch import layers as layers
    from petabatch import learning as learning
    from petabatch import plotting as plotting
    from petabatch import probes as probes
    from petabatch import sources as sources
    from petabatch import weights as weights
    from petabatch.checking import check as check
    from petabatch.coding import encode as encode
    from petabatch.coding.stream import encode_stream as encode_stream
    from petabatch.engine.driver import Driver as Driver
    from petabatch.engine.driver import Hook as Hook
    from petabatch.network.sparse_coding import sparse_coding as sparse_coding
    from petabatch.params import read as load
    from petabatch.results import open as open
    from petabatch.simulation import resume as resume
    from petabatch.simulation import run as run
    from petabatch.simulator import Simulator as Simulator
    from petabatch.spec.network import Checkpoint as Checkpoint
    from petabatch.spec.network import Network as Network
    from petabatch.spec.network import Output as Output
    from petabatch.spec.network import Run as Run
    from petabatch.spec.sweep import Sweep as Sweep
    from petabatch.waves.stream import sweep as sweep

_PLACES = {
    "Checkpoint": ("petabatch.spec.network", "Checkpoint"),
    "Driver": ("petabatch.engine.driver", "Driver"),
    "Hook": ("petabatch.engine.driver", "Hook"),
    "Network": ("petabatch.spec.network", "Network"),
    "Output": ("petabatch.spec.network", "Output"),
    "Run": ("petabatch.spec.network", "Run"),
    "Simulator": ("petabatch.simulator", "Simulator"),
    "Sweep": ("petabatch.spec.sweep", "Sweep"),
    "check": ("petabatch.checking", "check"),
    "encode": ("petabatch.coding", "encode"),
    "encode_stream": ("petabatch.coding.stream", "encode_stream"),
    "load": ("petabatch.params", "read"),
    "open": ("petabatch.results", "open"),
    "resume": ("petabatch.simulation", "resume"),
    "run": ("petabatch.simulation", "run"),
    "sparse_coding": ("petabatch.network.sparse_coding", "sparse_coding"),
    "sweep": ("petabatch.waves.stream", "sweep"),
}
_MODULES = (
    "connections",
    "errors",
    "in_memory",
    "layers",
    "learning",
    "plotting",
    "probes",
    "sources",
    "weights",
)
__all__ = [
    "Checkpoint",
    "Driver",
    "Hook",
    "Network",
    "Output",
    "Run",
    "Simulator",
    "Sweep",
    "__version__",
    "check",
    "connections",
    "encode",
    "encode_stream",
    "errors",
    "in_memory",
    "layers",
    "learning",
    "load",
    "open",
    "plotting",
    "probes",
    "resume",
    "run",
    "sources",
    "sparse_coding",
    "sweep",
    "weights",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that `import petabatch` stays light."""
    if name == "memory":  # the former name of `in_memory`, which is part of the public API
        return import_module("petabatch.in_memory")
    if name in _MODULES:
        return import_module(f"petabatch.{name}")
    if name in _PLACES:
        module, attribute = _PLACES[name]
        return getattr(import_module(module), attribute)
    from petabatch.errors import did_you_mean

    hint = did_you_mean(name, __all__)
    raise AttributeError(f"module petabatch has no attribute {name!r}{f': {hint}' if hint else ''}")
