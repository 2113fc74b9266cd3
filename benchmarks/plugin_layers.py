"""A plug-in's integrate-and-fire layer, as a row function and for arrays, against a built-in spiking layer.

    python benchmarks/plugin_layers.py [ROUNDS]

32 x 32 x 8 units of two slices, one thread, each driven one to one by an image. The three take turns, in
processor time; printed are medians of the time of a slice and step, and of its ratio to the row function's.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from petabatch.connections import Identity
from petabatch.engine.engine import Engine
from petabatch.layers import ConductanceLIF, Input
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.sources import ImageArray
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Layer, StepContext
from petabatch.spec.plugins import import_plugins

SHAPE, BATCH, STEPS, ROUNDS = (32, 32, 8), 2, 4000, 9
import_plugins({"plugins": ["lif.py"]}, Path(__file__).parents[1] / "demos" / "integrate_and_fire")
LIF: Any = Layer.choices()["lif"]


class ArrayLIF(LIF):  # type: ignore[misc]
    """The same neurons with an update for arrays alone."""

    type: Literal["array_lif"] = "array_lif"

    def update(
        self, ctx: StepContext, state: Mapping[str, Any], drive: Sequence[Any], previous: Any, activity: Any
    ) -> None:
        """Make one Euler step; every array is `[lanes, ny, nx, nf]`."""
        potential, rest = state["V"], state["rest"]
        resting = rest > 0
        potential += np.float32(ctx.dt / self.tau) * (drive[0] - potential) * ~resting
        spikes = (potential >= self.threshold) & ~resting
        potential[spikes] = 0
        rest -= np.float32(ctx.dt) * resting
        rest[spikes] = self.refractory
        activity[...] = spikes


def runs(layer: Layer, strength: float) -> Iterator[float]:
    """Yield the processor time of a slice and step, in microseconds, of one run after another."""
    images = np.random.default_rng(0).random((BATCH, *SHAPE), np.float32)
    layers = {"image": Input(shape=SHAPE, source=ImageArray(data=images)), "sheet": layer}
    connections = {"current": Identity(pre="image", post="sheet", strength=strength)}
    run = Run(batch=BATCH, steps=STEPS, display=STEPS)
    engine = Engine(schedule(build(Network(run=run, layers=layers, connections=connections))), Serial(), 1)
    engine.start()
    while True:
        begin = time.process_time()
        for _ in engine.run():
            pass
        yield 1e6 * (time.process_time() - begin) / (BATCH * STEPS)
        engine.restart()


def main() -> None:
    rivals = {
        "row function": runs(LIF(shape=SHAPE), 2.5),
        "for arrays": runs(ArrayLIF(shape=SHAPE), 2.5),
        "built-in conductance_lif": runs(ConductanceLIF(shape=SHAPE), 0.05),
    }
    for rival in rivals.values():
        next(rival)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    found: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, rival in rivals.items():
            found[name].append(next(rival))
    print(f"{'':26} {'us/slice/step':>14} {'ratio':>7}")
    for name, times in found.items():
        ratio = statistics.median(a / b for a, b in zip(times, found["row function"], strict=True))
        print(f"{name:26} {statistics.median(times):14.1f} {ratio:7.2f}")


if __name__ == "__main__":
    main()
