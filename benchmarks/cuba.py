"""Networks of 4,000 neurons of Vogels and Abbott, with currents or conductances, against Brian2's C++.

    python benchmarks/cuba.py --brian /tmp/brian/bin/python [ROUNDS] [--networks cuba coba] [--slices 1 32]

Both have the same equations, method, synapses and starts (`tests/support/brian_models.py`), and record all
spikes of a second in steps of 0.1 ms. They take turns, one thread each: petabatch in float32, with each
number of slices, and Brian2's standalone program in float32 and in float64. Printed are medians of the
processor time of the steps of a slice, without compiling, building the network or writing files, and ratios
of turns to petabatch's first. Brian2 needs an environment of its own, and a C++ compiler.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import threadpoolctl

from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))
from support.brian_models import NETWORKS  # noqa: E402
from support.brian_runs import spiking_network  # noqa: E402

UNITS, STEPS = 4000, 10_000
Result = tuple[float, int]
"""Processor time of a slice, and the spikes of a second."""


def by_petabatch(name: str, slices: int) -> Iterator[Result]:
    method = NETWORKS[name].methods[0]
    network = spiking_network(name, method, UNITS, STEPS, precision="float32", slices=slices)
    engine = Assembly.of(network, threads=1).engine()
    engine.start()
    while True:
        spikes, seconds, begin = 0, 0.0, time.process_time()
        for step in drive(engine):
            seconds += time.process_time() - begin
            for record in engine.recorder.take(step):
                spikes += int(np.count_nonzero(record.values[:, 0]))
            begin = time.process_time()
            engine.flushed()
        yield seconds / slices, spikes
        engine.restart()


BRIAN = """
import sys
sys.path.insert(0, sys.argv[1])
import brian2 as b
from support.brian import in_brian
from support.brian_models import NETWORKS, WEIGHTS, wiring
name, precision, folder = sys.argv[2:]
b.prefs.core.default_float_dtype = {"float32": b.float32, "float64": b.float64}[precision]
b.set_device("cpp_standalone", directory=folder, build_on_run=False)
b.defaultclock.dt = 0.1 * b.ms
model, wired = NETWORKS[name], wiring(name, 4000)
pause = model.refractory * b.ms
units = b.NeuronGroup(4000, **in_brian(model), refractory=pause, method=model.methods[0])
for key, values in wired.start.items():
    setattr(units, key, values)
parts = []
for target, weight, pairs in zip(("ge", "gi"), WEIGHTS[name], (wired.excitatory, wired.inhibitory)):
    parts.append(b.Synapses(units, units, on_pre=f"{target} += {weight}"))
    parts[-1].connect(i=pairs[0], j=pairs[1])
network = b.Network(units, *parts, b.SpikeMonitor(units, name="seen"))
b.device.insert_code("before_network_run", "clock_t begin_of_steps = clock();")
end = 'std::cout << "seconds " << double(clock() - begin_of_steps) / CLOCKS_PER_SEC << std::endl;'
count = 'std::cout << "spikes " << _dynamic_array_seen_i.size() << std::endl;'
b.device.insert_code("after_network_run", end + count)
network.run(1 * b.second)
b.device.build(directory=folder, compile=True, run=False)
"""


def by_brian(python: str, name: str, precision: str, folder: str) -> Iterator[Result]:
    command = [python, "-c", BRIAN, str(TESTS), name, precision, folder]
    subprocess.run(command, check=True, capture_output=True)
    while True:
        printed = subprocess.run([f"{folder}/main"], cwd=folder, check=True, capture_output=True, text=True)
        words = printed.stdout.split()
        yield float(words[words.index("seconds") + 1]), int(words[words.index("spikes") + 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    parser.add_argument("--networks", nargs="+", default=["cuba", "coba"])
    parser.add_argument("--slices", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--brian", help="the Python of an environment with Brian2")
    given = parser.parse_args()
    for name in given.networks:
        with tempfile.TemporaryDirectory() as folder, threadpoolctl.threadpool_limits(1):
            rivals = {f"petabatch, {n} slices": by_petabatch(name, n) for n in given.slices}
            for precision in ("float32", "float64") if given.brian else ():
                made = by_brian(given.brian, name, precision, f"{folder}/{precision}")
                rivals[f"Brian2, {precision}"] = made
            turns = [{key: next(rival) for key, rival in rivals.items()} for _ in range(given.rounds + 1)]
        _table(name, turns[1:])


def _table(name: str, turns: list[dict[str, Result]]) -> None:
    print(f"{name}: {len(turns)} rounds\n{'':24}{'ms':>10}{'ratio':>10}{'spikes':>10}")
    first = next(iter(turns[0]))
    for key in turns[0]:
        ratios = sorted(turn[key][0] / turn[first][0] for turn in turns)
        median = 1e3 * statistics.median(turn[key][0] for turn in turns)
        spread = f"  ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(
            f"{key:24}{median:10.1f}{statistics.median(ratios):10.2f}{turns[0][key][1]:10,}{spread}",
            flush=True,
        )


if __name__ == "__main__":
    main()
