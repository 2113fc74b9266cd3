"""Izhikevich's network of 1000 neurons with sparse synapses, against the same in batched NumPy and Brian2.

    python benchmarks/spiking.py [ROUNDS] [SLICES]      # 5 rounds, 64 slices
    python benchmarks/spiking.py --brian /tmp/brian/bin/python

`demos/izhikevich/network.toml` without output, on one thread. The rivals take turns, in processor time;
printed are medians of the time of a slice and step, of its ratio to petabatch's, and the spikes of a neuron
in a second with their standard error over slices. NumPy has all slices in one array and two sums over
synapses: a matrix product, and SciPy's sparse product. Brian2 needs an environment of its own (`python -m
venv /tmp/brian; /tmp/brian/bin/pip install brian2`), has all slices in one group, and its compiled runtime
target; it runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import threadpoolctl
from scipy import sparse

import petabatch
from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive
from petabatch.spec.network import Network, Output

NETWORK = Path(__file__).parents[1] / "demos" / "izhikevich" / "network.toml"
Result = tuple[float, np.ndarray]
"""Processor time in seconds, and the spikes of each slice."""


def network(slices: int, steps: int) -> Network:
    """Return the demo's network with a count of its spikes, and no other output."""
    sizes = [f"run.batch={slices}", f"run.display={steps}"]
    counts = [f'probes.{name}={{type="l0",layer="{name}"}}' for name in ("exc", "inh")]
    loaded = petabatch.load(NETWORK, [*sizes, *counts]).network
    return loaded.model_copy(update={"output": Output()})


def by_petabatch(slices: int, steps: int) -> Iterator[Result]:
    given = network(slices, steps)
    silent = given.model_copy(update={"probes": {}})
    counts = petabatch.in_memory.run(given, threads=1).recorded
    spikes = sum(counts[f"probes/{name}/active"].sum(axis=0) for name in ("exc", "inh"))
    engine = Assembly.of(silent, threads=1).engine()
    engine.start()
    while True:
        begin = time.process_time()
        for _ in drive(engine):
            pass
        yield time.process_time() - begin, np.asarray(spikes)
        engine.restart()


class NumPy:
    """The network in NumPy, of all slices at once; the same kinds of neurons and weights."""

    def __init__(self, slices: int, product: str) -> None:
        engine = Assembly.of(network(slices, 1), threads=1).engine()
        engine.start()
        graph, layers, self.slices = engine.plan.graph, engine.plan.graph.network.layers, slices
        names = ("exc", "inh")
        sizes = [int(np.prod(layers[name].shape)) for name in names]
        first = dict(zip(names, (0, sizes[0]), strict=True))
        weights = np.zeros((sum(sizes), sum(sizes)), np.float32)
        for name, synapses in graph.synapses.items():
            connection = graph.network.connections[name]
            values = engine.state.arrays[f"connections/{name}/weights"][0]
            entries = (values, synapses.targets, synapses.starts)
            pre, post = (sizes[names.index(end)] for end in (connection.pre, connection.post))
            block = sparse.csr_array(entries, (pre, post)).toarray()
            a, b = first[connection.pre], first[connection.post]
            weights[a : a + pre, b : b + post] += block
        self.weights = weights if product == "matrix" else sparse.csr_array(weights)
        deviations = np.array([layers[f"to_{name}"].std for name in names], np.float32)
        self.noise = np.repeat(deviations, sizes)
        exc, inh = (engine.state.arrays[f"layers/{name}/r"][0].ravel() for name in names)
        kinds = {
            "a": (0.02, 0.02 + 0.08 * inh),
            "b": (0.2, 0.25 - 0.05 * inh),
            "c": (-65 + 15 * exc**2, -65),
            "d": (8 - 6 * exc**2, 2),
        }
        self.a, self.b, self.c, self.d = (
            np.concatenate([np.broadcast_to(value, size) for value, size in zip(pair, sizes, strict=True)])
            for pair in kinds.values()
        )

    def run(self, steps: int, rng: np.random.Generator) -> np.ndarray:
        """Run from rest; return the spikes of each slice."""
        v = np.full((self.slices, self.a.size), -65, np.float32)
        u = self.b * v
        spikes, fired = np.zeros(self.slices), np.zeros(v.shape, bool)
        for _ in range(steps):
            current = self.noise * rng.standard_normal(v.shape, np.float32)
            if isinstance(self.weights, np.ndarray):
                current += fired.astype(np.float32) @ self.weights
            else:
                current += sparse.csr_array(fired.astype(np.float32)) @ self.weights
            np.copyto(v, np.broadcast_to(self.c, v.shape), where=fired)
            u += self.d * fired
            for _ in range(2):
                v += np.float32(0.5) * (
                    (np.float32(0.04) * v + np.float32(5)) * v + np.float32(140) - u + current
                )
            u += self.a * (self.b * v - u)
            fired = v >= 30
            spikes += fired.sum(axis=1)
        return spikes


def by_numpy(slices: int, steps: int, product: str) -> Iterator[Result]:
    rival, rng = NumPy(slices, product), np.random.default_rng(1)
    while True:
        begin = time.process_time()
        spikes = rival.run(steps, rng)
        yield time.process_time() - begin, spikes


BRIAN = """
import json, sys, time
import numpy as np
from brian2 import *
prefs.codegen.target = "cython"
slices, steps = map(int, sys.argv[1:3])
defaultclock.dt = 1 * ms
seed(1)
n = 1000 * slices
group = NeuronGroup(n, '''
v : 1
u : 1
a : 1 (constant)
b : 1 (constant)
c : 1 (constant)
d : 1 (constant)
noise : 1 (constant)
S : 1
I : 1
''', threshold="v >= 30", reset="v = c; u += d", method="euler")
given = np.load(sys.argv[3])
for name in ("a", "b", "c", "d", "noise"):
    setattr(group, name, np.tile(given[name], slices))
group.v = -65
group.u = group.b[:] * -65
step = group.run_regularly('''
I = S + noise * randn()
S = 0
v += 0.5 * (0.04 * v**2 + 5 * v + 140 - u + I)
v += 0.5 * (0.04 * v**2 + 5 * v + 140 - u + I)
u += a * (b * v - u)
''', dt=1 * ms, when="start")
pre, post = np.nonzero(given["weights"])
weights = given["weights"][pre, post]
synapses = Synapses(group, group, "w : 1", on_pre="S_post += w")
shift = 1000 * np.arange(slices)[:, None]
synapses.connect(i=(pre + shift).ravel(), j=(post + shift).ravel())
synapses.w = np.tile(weights, slices)
counts = SpikeMonitor(group, record=False)
network = Network(group, step, synapses, counts)
network.store()
network.run(2 * ms)  # compiles
network.restore()
begin = time.process_time()
network.run(steps * ms)
seconds = time.process_time() - begin
found = np.array(counts.count).reshape(slices, 1000).sum(axis=1)
print(json.dumps([seconds, found.tolist()]))
"""


def by_brian(python: str, slices: int, steps: int) -> Iterator[Result]:
    rival = NumPy(slices, "matrix")
    names = ("a", "b", "c", "d", "noise", "weights")
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/network.npz"
        np.savez(file, **{name: getattr(rival, name) for name in names})
        command = [python, "-c", BRIAN, str(slices), str(steps), file]
        while True:
            printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            seconds, spikes = json.loads(printed.splitlines()[-1])
            yield seconds, np.array(spikes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    parser.add_argument("slices", nargs="?", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--brian", help="the Python of an environment with Brian2")
    given = parser.parse_args()
    slices, steps = given.slices, given.steps
    rivals = {
        "petabatch": by_petabatch(slices, steps),
        "NumPy, matrix product": by_numpy(slices, steps, "matrix"),
        "NumPy, sparse product": by_numpy(slices, steps, "sparse"),
    }
    if given.brian:
        rivals["Brian2, cython"] = by_brian(given.brian, slices, steps)
    found: dict[str, list[Result]] = {name: [] for name in rivals}
    with threadpoolctl.threadpool_limits(1):
        for _ in range(given.rounds):
            for name, rival in rivals.items():
                found[name].append(next(rival))
    print(f"{slices} slices, {steps} steps, {given.rounds} rounds")
    print(f"{'':24} {'us/slice/step':>14} {'ratio':>7} {'spikes/neuron/s':>18}")
    for name, results in found.items():
        times = [seconds for seconds, _ in results]
        ratio = statistics.median(a / b for a, (b, _) in zip(times, found["petabatch"], strict=True))
        rates = results[0][1] / steps
        error = rates.std(ddof=1) / slices**0.5
        each = 1e6 * statistics.median(times) / (slices * steps)
        print(f"{name:24} {each:14.2f} {ratio:7.2f} {rates.mean():11.3f} +- {error:.3f}")


if __name__ == "__main__":
    main()
