"""Slices shared by two ranks, by features or by rows: measured and predicted, over memory and links.

    python benchmarks/splits.py [--cases W3 two_layer uneven ...] [--rounds 3] [--links memory 1gbit 100mbit]
    python benchmarks/splits.py --short     # small networks, one round: does it work here?

As root, on Linux: hosts are network namespaces (tests/support/hosts.py), with one rank and one thread each;
`memory` is shared memory, without them. W3, params/two_layer.toml, and networks in which some layers are
replicated on both ranks (`uneven`, `spiking`) have a batch of two; an image of 1024 x 1024 or (`large`, by
rows alone) 4096 x 4096 is alone; weights are fixed. Each case is run on one rank with one thread and with
two, then on two ranks with its batch, its features and its rows split, as far as that can be. Displays after
the first are timed, in turns.

Processor time is that of the busiest rank, without what it spends in messages of steps. On a machine that
others use, too, it says what an idle one would take without messages: compare it with the prediction of what
is computed. `sent` is what the link of a rank carries in a step. Predictions are made from a calibration
immediately before each round, and from the latency and bandwidth that the two ranks measure by messages
before they begin.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numba
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "benchmarks")]
import prediction  # noqa: E402
import tiles  # noqa: E402
import whole_layers  # noqa: E402
import workloads  # noqa: E402

from petabatch import params  # noqa: E402
from petabatch.bench.prediction.calibrate import calibrate  # noqa: E402
from petabatch.bench.prediction.calibration import load  # noqa: E402
from petabatch.bench.prediction.link import Link  # noqa: E402
from petabatch.bench.prediction.model import Prediction, by_batch, by_parts  # noqa: E402
from petabatch.bench.prediction.traffic import traffic  # noqa: E402
from petabatch.bench.prediction.ways import first_part  # noqa: E402
from petabatch.connections import Conv  # noqa: E402
from petabatch.engine.assembly import Assembly  # noqa: E402
from petabatch.engine.driver import drive  # noqa: E402
from petabatch.errors import ParamsError  # noqa: E402
from petabatch.kernels.cpu.program.messages import add, nanoseconds, start, wait  # noqa: E402
from petabatch.kernels.messages import COUNT, START, WAIT  # noqa: E402
from petabatch.layers import LCA, Input  # noqa: E402
from petabatch.network.build import build  # noqa: E402
from petabatch.network.evaluation import fixed  # noqa: E402
from petabatch.network.plan import schedule  # noqa: E402
from petabatch.network.possible_parts import Axis, with_parts  # noqa: E402
from petabatch.network.sparse_coding import sparse_coding  # noqa: E402
from petabatch.parallel.comm import COMMUNICATION, Messages  # noqa: E402
from petabatch.parallel.launch import connect  # noqa: E402
from petabatch.parallel.mpi import MPI  # noqa: E402
from petabatch.sources import ImageArray  # noqa: E402
from petabatch.spec.network import Network, Run  # noqa: E402
from petabatch.weights import L2, Gaussian  # noqa: E402
from support.hosts import MPIRUN, Hosts  # noqa: E402

SIDES = {"image": 1024, "large": 4096}
CASES = ("W3", "two_layer", "uneven", "spiking", *SIDES)
LINKS = ("memory", "1gbit", "100mbit")
WAYS: dict[str, tuple[Literal["batch"] | Axis, int, int]] = {
    "one rank, one thread": ("batch", 1, 1),
    "one rank, two threads": ("batch", 1, 2),
    "batch": ("batch", 2, 1),
    "features": ("features", 2, 1),
    "rows": ("rows", 2, 1),
}
"""What is split, over how many ranks, with how many threads each."""
LIMIT = 900
"""Seconds of one run."""
_THREAD = 3
"""The clock of Linux that `time.thread_time` reads."""
_KEPT: list[Any] = []
"""Functions that messages are made by."""


def network(case: str, short: bool, folder: Path) -> Network:
    """Return the network of a case; files are in `folder`."""
    length: dict[str, Any] = {"displays": 3, "steps": None} | ({"display": 10} if short else {})
    if case in SIDES:
        side = 64 if short else SIDES[case]
        found = sparse_coding(
            Input(shape=(side, side, 3), source=ImageArray(file=str(tiles.draw(side, folder)))),
            LCA(shape=(side // 8, side // 8, 128), tau=20.0, threshold=1.5),
            Conv(pre="V1", post="recon", patch=(16, 16), init=Gaussian(), normalize=L2()),
            run=Run(batch=1, display=20 if case == "image" else 8, displays=3),
        )
    elif case == "uneven":
        found = whole_layers.uneven(short)
        length["batch"] = 2
    elif case == "spiking":
        side = 32 if short else 256
        found = whole_layers.spiking(short, tiles.draw(side, folder), side)
    elif case == "two_layer":
        found = params.read(ROOT / "params" / "two_layer.toml", ("run.display=50",)).network
        length["batch"] = 2
    else:
        found = workloads.WORKLOADS[case].network()
        length["batch"] = 2
    return found.model_copy(
        update={"run": found.run.model_copy(update=length), "connections": fixed(found), "probes": {}}
    )


def _outside_of_messages() -> Callable[[], float]:
    """Return the processor time so far, without that of messages between steps."""
    spent, prepare = np.zeros(1, np.int64), MPI.messages

    def timed(self: MPI, *arguments: Any) -> Messages:
        found = prepare(self, *arguments)
        _time_messages(found.table, spent)
        return found

    MPI.messages = timed  # type: ignore[method-assign]
    return lambda: time.process_time() - float(spent[0]) / 1e9


def _time_messages(table: np.ndarray, spent: np.ndarray) -> None:
    """Have the processor time of messages added up, in nanoseconds."""
    if table[COUNT] == 0:
        return
    first, last, total = int(table[START]), int(table[WAIT]), spent.ctypes.data

    @numba.cfunc("int32(int32, int64)")
    def begin(count: int, requests: int) -> int:
        since = nanoseconds(_THREAD)
        error = start(first, count, requests)
        add(total, nanoseconds(_THREAD) - since)
        return error

    @numba.cfunc("int32(int32, int64, int64)")
    def end(count: int, requests: int, statuses: int) -> int:
        since = nanoseconds(_THREAD)
        error = wait(last, count, requests, statuses)
        add(total, nanoseconds(_THREAD) - since)
        return error

    _KEPT.extend((begin, end))
    table[START], table[WAIT] = begin.address, end.address


def measure(case: str, way: str, short: bool, folder: Path) -> None:
    """Run on this rank; the first prints what all have measured."""
    split, ranks, threads = WAYS[way]
    link = prediction.link_to_other() if ranks == 2 else {"latency": 0.0, "bandwidth": 1.0}
    comm, processor_time = connect(None), _outside_of_messages()
    whole = network(case, short, folder)
    parted = whole if split == "batch" else with_parts(whole, split, ranks)
    engine = Assembly.of(parted, comm, threads).engine()
    engine.start()
    display, start = whole.run.display, ()
    for step in drive(engine):
        engine.features.records(engine.recorder.take(step))
        engine.flushed()
        if not start and step >= display:
            comm.barrier()
            start = (*_clocks(comm, processor_time), step)
    ends = _clocks(comm, processor_time)
    wall, processor, waited, sent = (b - a for a, b in zip(start, ends, strict=False))
    steps = whole.run.length - start[-1]
    found = {
        "seconds": wall / steps, "processor": processor / steps, "communication": waited / wall,
        "sent": sent / steps, "latency": link["latency"], "bandwidth": link["bandwidth"],
    }  # fmt: skip
    everyone = comm.gather(found)
    if everyone is not None:
        print(json.dumps({key: max(one[key] for one in everyone) for key in found}))


def _clocks(comm: Any, processor_time: Callable[[], float]) -> tuple[float, float, float, float]:
    """Return wall, processor and waiting seconds so far, and the bytes sent over the link of this host."""
    counter = Path("/sys/class/net/eth0/statistics/tx_bytes")
    sent = float(counter.read_text()) if counter.exists() else 0.0
    return time.monotonic(), processor_time(), comm.waited.get(COMMUNICATION, 0.0), sent


def run(case: str, way: str, over: str, short: bool, folder: Path) -> dict[str, float]:
    """Return what one way measures."""
    _, ranks, _ = WAYS[way]
    command = [sys.executable, __file__, "--rank", case, way, str(int(short)), str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    if ranks == 1 or over == "memory":
        mpirun = [str(MPIRUN), "-n", str(ranks)] if ranks > 1 else []
        done = subprocess.run(
            [*mpirun, *command], stdout=subprocess.PIPE, text=True, check=True, env=environment,
            timeout=LIMIT,
        )  # fmt: skip
        output = done.stdout
    else:
        with Hosts(ranks, folder, over) as hosts:
            process = hosts.mpirun(range(ranks), command, folder, environment=environment)
            output, _ = process.communicate(timeout=LIMIT)
            if process.returncode:
                sys.exit(output)
    found: dict[str, float] = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    return found


def predict(way: str, whole: Network, kept: Path, found: dict[str, float]) -> Prediction:
    """Return the prediction of one way over the link that was measured."""
    split, ranks, _ = WAYS[way]
    link = Link(found["latency"], found["bandwidth"])
    known = load(kept, whole, None), link
    if split == "batch":
        return by_batch(traffic(schedule(build(whole))), *known, ranks)
    part = first_part(with_parts(whole, split, ranks))
    return by_parts(traffic(part.features.plan), *known, part.network.parallel, ranks)


def _takes(whole: Network, axis: Axis, parts: int) -> bool:
    """Return whether slices can be split into this number of parts."""
    try:
        build(with_parts(whole, axis, parts))
    except ParamsError:
        return False
    return True


def round_of(
    case: str, links: Sequence[str], short: bool, folder: Path
) -> dict[tuple[str, str], dict[str, float]]:
    """Return what all ways of a case measure, by way and link, with their predictions."""
    whole, kept = network(case, short, folder), {1: folder / "one.json", 2: folder / "two.json"}
    for threads, path in kept.items():
        calibrate(whole, case, threads, displays=2).save(path)
    found: dict[tuple[str, str], dict[str, float]] = {}
    for way, (split, ranks, threads) in WAYS.items():
        if split != "batch" and not _takes(whole, split, ranks):
            continue
        if (ranks > whole.batch and split == "batch") or (case == "large" and split == "features"):
            continue
        for over in links if ranks > 1 else ("",):
            one = run(case, way, over, short, folder)
            predicted = predict(way, whole, kept[threads], one)
            one["predicted"] = predicted.seconds / whole.run.display
            computing = predicted.computing + predicted.updating
            one["computing"] = computing * threads / whole.run.display
            found[way, over] = one
            print(case, way, over, {key: f"{value:.4g}" for key, value in one.items()}, file=sys.stderr)
    return found


def report(case: str, rounds: Sequence[dict[tuple[str, str], dict[str, float]]]) -> list[float]:
    """Print the table of a case, and whether the fastest way was predicted; return the median errors."""
    print(f"\n{case}, medians of {len(rounds)}, load {os.getloadavg()[0]:.1f}")
    columns = "way | link | ms/step | predicted | error | speed-up | processor ms | predicted | sent"
    print(f"| {columns} | communication |")
    print("|---" * 10 + "|")
    alone = ("one rank, one thread", "")
    errors, times = [], defaultdict(list)
    for key in rounds[0]:
        ones = [one[key] for one in rounds]
        middle = {name: statistics.median(one[name] for one in ones) for name in ones[0]}
        error = statistics.median(one["predicted"] / one["seconds"] - 1 for one in ones)
        gain = statistics.median(
            first[alone]["seconds"] / one["seconds"] for first, one in zip(rounds, ones, strict=True)
        )
        errors.append(error)
        times[key[1]].append((middle["seconds"], middle["predicted"], key[0]))
        print(
            f"| {key[0]} | {key[1]} | {1000 * middle['seconds']:.2f} | {1000 * middle['predicted']:.2f} | "
            f"{error:+.0%} | {gain:.2f} | {1000 * middle['processor']:.2f} | "
            f"{1000 * middle['computing']:.2f} | {middle['sent'] / 1e3:.1f} kB | "
            f"{middle['communication']:.1%} |"
        )
    for over, ways in times.items():
        if over:
            measured, predicted = min(ways)[2], min(ways, key=lambda way: way[1])[2]
            print(f"fastest over {over}: {measured}, predicted {predicted}")
    return errors


def main() -> None:
    """Measure all cases."""
    if sys.argv[1:2] == ["--rank"]:
        case, way, short, folder = sys.argv[2:]
        measure(case, way, bool(int(short)), Path(folder))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--links", nargs="+", choices=LINKS, default=LINKS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--short", action="store_true")
    chosen = parser.parse_args()
    errors = []
    with tempfile.TemporaryDirectory() as name:
        for case in chosen.cases:
            count = 1 if chosen.short else chosen.rounds
            rounds = [round_of(case, chosen.links, chosen.short, Path(name)) for _ in range(count)]
            errors += report(case, rounds)
    print(f"\nmedian of the errors: {statistics.median(map(abs, errors)):.0%}")


if __name__ == "__main__":
    main()
