"""A network whose synapses learn by pairs of spikes, against itself without and against Brian2's C++.

    python benchmarks/plasticity.py --brian /tmp/brian/bin/python [ROUNDS] [--units 4000] [--delays]

Integrate-and-fire neurons with Poisson input excite each other by a tenth of all possible synapses, all 1.5
ms later, or with --delays 1.5 to 3.5 ms. They take turns, one thread each, in steps of 0.1 ms, float32.
Printed are medians of the processor time of a step, the spikes of a step, and nanoseconds for each event of a
synapse: at a spike of its pre unit, and of its post unit where it learns. Brian2 needs an environment of its
own, and a C++ compiler.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import threadpoolctl

from petabatch import Network, Simulator
from petabatch.connections import Identity, Sparse
from petabatch.layers import Neurons, Poisson
from petabatch.learning import Stdp
from petabatch.weights import Constant, Uniform

STEPS, PROBABILITY = 2000, 0.1
Result = tuple[float, float]
"""Processor time of a step, and spikes in it."""


def network(units: int, learns: bool, late: bool) -> Network:
    rule = Stdp(a_plus=2e-4, a_minus=2.1e-4, largest=0.04) if learns else None
    weight = 0.02 * 4000 / units
    return Network(
        run={"steps": STEPS, "dt": 0.1, "display": 1000},
        layers={
            "input": Poisson(shape=(1, 1, units), rate=2.0),
            "n": Neurons(
                shape=(1, 1, units), equations="dv/dt = -v / 20 : unless refractory", spike="v > 20",
                reset="v = 10", refractory=2.0, start={"v": Uniform(low=0, high=20)},
            ),
        },
        connections={
            "input": Identity(pre="input", post="n", target="v", strength=0.75),
            "n": Sparse(
                pre="n", post="n", target="v", probability=PROBABILITY, mode="non_shared", delay_steps=15,
                init=Constant(value=weight), delays=Uniform(low=0.0, high=2.0) if late else None, learn=rule,
            ),
        },
        output={"layers": {"n": {"variables": ["spikes"]}}},
    )  # fmt: skip


def by_petabatch(units: int, learns: bool, late: bool) -> Iterator[Result]:
    while True:
        with Simulator(network(units, learns, late)) as sim:
            sim.step()
            begin = time.process_time()
            sim.step(STEPS - 1)
            seconds = time.process_time() - begin
            spikes = len(sim.recorded["spikes/n/unit"])
        yield seconds / STEPS, spikes / STEPS


BRIAN = """
import sys
import brian2 as b
units, learns, late, folder = int(sys.argv[1]), sys.argv[2] == "True", sys.argv[3] == "True", sys.argv[4]
b.prefs.core.default_float_dtype = b.float32
b.set_device("cpp_standalone", directory=folder, build_on_run=False)
b.defaultclock.dt = 0.1 * b.ms
n = b.NeuronGroup(units, "dv/dt = -v / (20*ms) : 1 (unless refractory)", threshold="v > 20", reset="v = 10",
                  refractory=2 * b.ms, method="exact")
n.v = "rand() * 20"
given = b.PoissonInput(n, "v", 1000, 2 * b.Hz, weight=0.75)
lines, on_pre, on_post = "w : 1", "v_post += w", None
if learns:
    lines += "\\ndx/dt = -x / (20*ms) : 1 (event-driven)\\ndy/dt = -y / (20*ms) : 1 (event-driven)"
    on_pre += "; x += 1; w = clip(w - 0.00021 * y, 0, 0.04)"
    on_post = "y += 1; w = clip(w + 0.0002 * x, 0, 0.04)"
joined = b.Synapses(n, n, lines, on_pre=on_pre, on_post=on_post)
joined.connect(p=0.1)
joined.w = 0.02 * 4000 / units
joined.pre.delay = "1.5*ms + 2*ms * rand()" if late else "1.5*ms"
network = b.Network(n, given, joined, b.SpikeMonitor(n, name="seen"))
b.device.insert_code("before_network_run", "clock_t begin_of_steps = clock();")
end = 'std::cout << "seconds " << double(clock() - begin_of_steps) / CLOCKS_PER_SEC << std::endl;'
count = 'std::cout << "spikes " << _dynamic_array_seen_i.size() << std::endl;'
b.device.insert_code("after_network_run", end + count)
network.run(200 * b.ms)
b.device.build(directory=folder, compile=True, run=False)
"""


def by_brian(python: str, units: int, learns: bool, late: bool, folder: str) -> Iterator[Result]:
    command = [python, "-c", BRIAN, str(units), str(learns), str(late), folder]
    subprocess.run(command, check=True, capture_output=True)
    while True:
        printed = subprocess.run([f"{folder}/main"], cwd=folder, check=True, capture_output=True, text=True)
        words = printed.stdout.split()
        seconds, spikes = (float(words[words.index(what) + 1]) for what in ("seconds", "spikes"))
        yield seconds / STEPS, spikes / STEPS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    parser.add_argument("--units", type=int, default=4000)
    parser.add_argument("--delays", action="store_true", help="each synapse has a delay of its own")
    parser.add_argument("--brian", help="the Python of an environment with Brian2")
    given = parser.parse_args()
    units, late = given.units, given.delays
    with tempfile.TemporaryDirectory() as folder, threadpoolctl.threadpool_limits(1):
        rivals = {}
        for learns in (False, True):
            what = "learns" if learns else "stands"
            rivals[f"petabatch, {what}"] = by_petabatch(units, learns, late)
            if given.brian:
                made = by_brian(given.brian, units, learns, late, f"{folder}/{what}")
                rivals[f"Brian2, {what}"] = made
        turns = [{key: next(rival) for key, rival in rivals.items()} for _ in range(given.rounds)]
    print(f"{units:,} units, {len(turns)} rounds\n{'':24}{'us/step':>10}{'spikes':>10}{'ns/event':>10}")
    for key in rivals:
        step = statistics.median(turn[key][0] for turn in turns)
        spikes = turns[0][key][1]
        events = spikes * units * PROBABILITY * (2 if "learns" in key else 1)
        each = f"{1e9 * step / events:10.1f}" if events else ""
        print(f"{key:24}{1e6 * step:10.1f}{spikes:10.1f}{each}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
