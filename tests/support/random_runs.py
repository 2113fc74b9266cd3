"""Random networks that learn and are recorded, run to their end on threads or ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from petabatch.connections import Conv
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.layers import LCA
from petabatch.layers.timescale import BaseTimeScale
from petabatch.learning import Hebbian
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Comm, Serial
from petabatch.probes import L0, L1, L2, Energy, Statistics
from petabatch.spec.network import ConnectionOutput, LayerOutput, Network, Output, Run
from petabatch.spec.parts import STEP, Connection, Probe
from petabatch.spec.schedule import Every
from support.lazy_codes import random_loops
from support.networks import collect, flush
from support.programs import DISPLAY, random_network
from support.rank_threads import on_threads

Arrays = Mapping[str, np.ndarray]


def random_run(seed: int) -> Network:
    """Return a random network of three slices for three displays; weights learn, all is recorded.

    Every third consists of lazily evaluated codes.
    """
    rng, lazy = np.random.default_rng([seed, 1]), seed % 3 == 0
    base = random_loops(seed, True, batch=3) if lazy else random_network(seed, 3)
    every = [STEP, Every(3), Every(1, "displays")]
    connections: dict[str, Connection] = {}
    for name, one in base.connections.items():
        learns = isinstance(one, Conv) and rng.random() < 0.5 and not lazy
        learn = Hebbian(rate=0.05, momentum=0.5, every=every[rng.integers(1, 3)])
        connections[name] = one.model_copy(update={"learn": learn}) if learns else one
    layers, probes = dict(base.layers), dict[str, Probe](base.probes)
    for name, layer in base.layers.items():
        probe = [L2, L0, L1, Statistics][rng.integers(4)]
        if rng.random() < 0.5:
            probes[f"of_{name}"] = probe(layer=name, every=every[rng.integers(3)])
        if isinstance(layer, LCA) and rng.random() < 0.3 and not lazy:
            probes["energy"] = Energy(error="image", code=name, coefficient=0.1)
            scale = BaseTimeScale(energy="energy", minimum=0.5, maximum=0.6, factor=0.2, growth=0.1)
            layers[name] = layer.model_copy(update={"time_scale": scale})
    owners = [name for name, one in connections.items() if isinstance(one, Conv)]
    output = Output(
        layers={name: LayerOutput(every=every[rng.integers(3)]) for name in layers},
        connections={name: ConnectionOutput() for name in owners},
        flush=Every(1, "displays"),
    )
    run = base.run if lazy else Run(batch=3, displays=3, display=DISPLAY, dt=0.5)
    tables = {"layers": layers, "connections": connections, "probes": probes, "output": output, "run": run}
    return base.model_copy(update=tables)


def finish(
    network: Network, comm: Comm | None = None, threads: int = 1, start: tuple[int, Arrays] | None = None
) -> tuple[Engine, dict[str, np.ndarray]]:
    """Run to the end, from a saved state if one is given; return the engine and what it recorded."""
    engine = Engine(schedule(build(network)), comm or Serial(), threads)
    if start is None:
        engine.start()
    else:
        lo, hi = engine.state.lo, engine.state.hi
        variables, (step, arrays) = engine.state.variables, start
        mine = {
            key: array[lo:hi] if variables[key].per == "slice" else array for key, array in arrays.items()
        }
        engine.resume(step, mine)
    recorded = collect(engine)
    engine.collect()
    return engine, recorded


def states(engine: Engine) -> dict[str, np.ndarray]:
    """Return what a checkpoint holds."""
    return {key: array.copy() for key, array in engine.state.saved().items()}


def saved_at(network: Network, step: int) -> dict[str, np.ndarray]:
    """Return what a checkpoint at the end of `step` holds."""
    engine = Engine(schedule(build(network)), Serial(), 1)
    engine.start()
    for reached in drive(engine):
        list(flush(engine, reached))
        if reached == step:
            engine.collect()
            return states(engine)
    raise AssertionError(f"there is no sync event at step {step}")


def on_ranks(
    network: Network, ranks: int, start: tuple[int, Arrays] | None = None, threads: int = 1
) -> tuple[Arrays, Arrays]:
    """Return state and recordings of a run on several ranks, which are threads of this process."""
    runs = on_threads(ranks, lambda comm: finish(network, comm, threads, start))
    variables = runs[0][0].state.variables

    def shared(key: str) -> bool:
        return key in variables and variables[key].per != "slice"

    def of_weights(path: str) -> bool:
        """Return whether all ranks record the same; of a layer held once, each does for its slices."""
        return shared(path) and not path.startswith("layers/")

    state = _joined([states(engine) for engine, _ in runs], 0, shared)
    return state, _joined([recorded for _, recorded in runs], 1, of_weights)


def _joined(parts: Sequence[Arrays], axis: int, shared: Callable[[str], bool]) -> dict[str, Any]:
    """Return what ranks have together: their slices one after the other, or one copy of what all share."""
    found = {}
    for key in parts[0]:
        if shared(key):
            assert len({part[key].tobytes() for part in parts}) == 1, f"{key} differs between ranks"
            found[key] = parts[0][key]
        else:
            found[key] = np.concatenate([part[key] for part in parts], axis)
    return found


def digests(seeds: Sequence[int], comm: Comm) -> list[str]:
    """Return on rank 0 what identifies every array of these runs, slice by slice."""
    lines = []
    for seed in seeds:
        engine, _ = finish(random_run(seed), comm)
        for key, array in sorted(states(engine).items()):
            parts = comm.gather([hashlib.sha256(one.tobytes()).hexdigest() for one in array])
            if parts is not None:
                per_slice = engine.state.variables[key].per == "slice"
                lines.append(f"{seed} {key} {list(chain(*parts)) if per_slice else parts[0]}")
    return lines
