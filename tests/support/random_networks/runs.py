"""Runs of a network in memory: at some steps, step by step, from the states of another run."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network, Output, Run
from support.gpu_emulation import EmulatedGpu
from support.networks import flush

Arrays = Mapping[str, np.ndarray]


def with_run(network: Network, **keys: Any) -> Network:
    """Return a network with other keys of `[run]`; raises TableError where they are refused."""
    run = Run(**{name: getattr(network.run, name) for name in Run.model_fields} | keys)
    return network.model_copy(update={"run": run})


def unobserved(network: Network) -> Network:
    """Return a network without what only observes it: output, and probes that control nothing."""
    followed = {layer.controller.energy for layer in network.layers.values() if layer.controller is not None}
    gap = network.run.until is not None
    probes = {
        n: one for n, one in network.probes.items() if n in followed or (gap and one.type == "optimality")
    }
    return network.model_copy(update={"output": Output(), "probes": probes})


@dataclass(frozen=True)
class Steps:
    """What a run has been at the end of some steps, step 0 among them, and what it has recorded."""

    states: Sequence[Arrays]
    recorded: Arrays


def run(
    network: Network,
    stops: Collection[int] | None = None,
    device: EmulatedGpu | None = None,
    states: Sequence[Arrays] | None = None,
    stretch: tuple[int, int] = (1, 0),
    sizes: bool = False,
) -> Steps:
    """Run with a state at the end of each of `stops`, by default all steps.

    Given the `states` of another run at the end of every step, each step begins with its own; with a
    `stretch` (n, k), only steps k + 1, k + n + 1, ... do. With `sizes`, the others begin with the numbers per
    slice of their own, such as step sizes.
    """
    recorded: dict[str, list[np.ndarray]] = {}
    found = list(walk(network, stops, device, states, recorded, stretch, sizes))
    return Steps(found, {path: np.concatenate(values) for path, values in recorded.items()})


def walk(
    network: Network,
    stops: Collection[int] | None = None,
    device: EmulatedGpu | None = None,
    states: Sequence[Arrays] | None = None,
    recorded: dict[str, list[np.ndarray]] | None = None,
    stretch: tuple[int, int] = (1, 0),
    sizes: bool = False,
) -> Iterator[Arrays]:
    """Yield the states of `run` as it goes; what it records is added to `recorded`."""
    with warnings.catch_warnings(action="ignore"):
        plan = schedule(build(network), None if device is None else device.limits)
        wanted = range(1, plan.length + 1) if stops is None else stops
        engine = Engine(replace(plan, stops=tuple(wanted)), Serial(), 1, device)
        engine.start()
        yield _saved(engine)
        if states is not None:
            engine.resume(0, _of(engine, states[0]))
        with closing(drive(engine)) as steps:
            for step in steps:
                engine.collect()
                for path, values in flush(engine, step):
                    if recorded is not None:
                        recorded.setdefault(path, []).append(values)
                if step in wanted:
                    yield _saved(engine)
                if states is not None and step < plan.length:
                    whole = step % stretch[0] == stretch[1]
                    if whole or sizes:
                        engine.resume(step, _of(engine, states[step], whole))
        engine.close()


def _saved(engine: Engine) -> Arrays:
    return {key: array.copy() for key, array in engine.state.saved().items()}


def _of(engine: Engine, state: Arrays, whole: bool = True) -> Arrays:
    """Return a state as this engine has it; unless `whole`, its numbers per slice and the rest as it is."""
    return {
        key: state[key].astype(array.dtype) if whole or array.ndim == 1 else array.copy()
        for key, array in engine.state.saved().items()
    }
