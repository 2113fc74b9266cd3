"""Predicted and measured time of a display on one host, and on two with a slow link between them.

    python benchmarks/prediction.py --rounds 3         # about seven minutes
    python benchmarks/prediction.py --short            # a small network, one round: does it work here?

As root, on Linux: hosts are network namespaces (tests/support/hosts.py), with one rank and one thread each.
The main job (params/natural_images.toml) is run with an update after every display, every 10 steps and every
step (there, displays of 100 steps), over links of no limit, 1 Gbit/s and 100 Mbit/s. In each round, the
network is calibrated immediately before it is run, and each link is measured by exchanging messages
immediately before the run over it. What is measured are all displays but the first, from the end of one to
the end of the next; the calibration has the same displays.

The table is right if the median error of each row is at most 20 %, and none is beyond 35 %.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
from petabatch import simulation  # noqa: E402
from petabatch.bench.prediction.calibrate import calibrate  # noqa: E402
from petabatch.bench.prediction.link import Link  # noqa: E402
from petabatch.bench.prediction.model import by_batch  # noqa: E402
from petabatch.bench.prediction.traffic import traffic  # noqa: E402
from petabatch.engine.engine import Engine  # noqa: E402
from petabatch.parallel.launch import launched_ranks  # noqa: E402
from support.hosts import Hosts, NoHosts  # noqa: E402

JOB = ROOT / "params" / "natural_images.toml"
LINKS = {"no limit": None, "1 Gbit/s": "1gbit", "100 Mbit/s": "100mbit"}
UPDATES = {"every display": ("display", 6), "every 10 steps": ("10 steps", 3), "every step": ("step", 2)}
"""`every` of the update, and displays of a run."""
CUT = {"every step": ("run.display=100",)}
"""Lazy steps are slow if weights change in each."""
SHORT = ("run.batch=4", "run.display=40")
MEDIAN, WORST = 0.20, 0.35
LIMIT = 180
"""Seconds of one run."""
_SMALL, _LARGE = 8, 1 << 17
"""Bytes of the messages that measure a link."""
_READ = 1 << 18
"""Numbers that are read between two of them: 2 MiB, as much as a core has for itself."""


def measure(out: Path, overrides: Sequence[str]) -> None:
    """Run the job, as each rank does, and print the seconds of a display and the link to the other rank."""
    ends: list[float] = []
    run = Engine.run

    def timed(self: Engine) -> Generator[int, None, None]:
        for step in run(self):
            if step % self.plan.graph.network.run.display == 0:
                ends.append(time.monotonic())
            yield step

    Engine.run = timed  # type: ignore[method-assign]
    ranks = launched_ranks(os.environ)
    found: dict[str, float] = link_to_other() if ranks == 2 else {}
    simulation.run(simulation.read(JOB, overrides), out, force=True, threads=1, quiet=True)
    if not found or found.pop("rank") == 0:
        print(json.dumps({"display": (ends[-1] - ends[0]) / (len(ends) - 1), **found}))


def link_to_other() -> dict[str, float]:
    """Return this rank, and the latency and bandwidth of two ranks that send at the same time.

    Between messages they read memory, as steps do: otherwise MPI finds all in the caches.
    """
    from mpi4py import MPI

    ranks, read = MPI.COMM_WORLD, np.ones(_READ)
    other, seconds = 1 - ranks.rank, {}
    for nbytes, times in ((_SMALL, 300), (_LARGE, 24)):
        mine, theirs = np.zeros(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
        turns = []
        for _ in range(times):
            read.sum()
            begin = time.perf_counter()
            # from any source, MPICH 5.0.2 may hang over TCP
            ranks.Sendrecv(mine, other, 0, theirs, other, 0)
            turns.append(time.perf_counter() - begin)
        seconds[nbytes] = ranks.allreduce(statistics.median(turns[times // 4 :])) / 2
    latency = seconds[_SMALL]
    return {
        "rank": ranks.rank,
        "latency": latency,
        "bandwidth": (_LARGE - _SMALL) / max(1e-9, seconds[_LARGE] - latency),
    }


def start(folder: Path, rate: str | None, ranks: int, overrides: Sequence[str]) -> dict[str, float]:
    """Start a run with each rank on a host of its own; return what its first rank prints."""
    with Hosts(ranks, folder, rate) as hosts:
        command = [sys.executable, Path(__file__), "--rank", folder / "run", *overrides]
        environment = {"PYTHONPATH": str(ROOT)}
        if ranks == 1:
            process = hosts.start(0, command, folder, environment)
        else:
            process = hosts.mpirun(range(ranks), command, folder, environment=environment)
        try:
            output, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            sys.exit(f"a run with {overrides} over {rate} did not end in {LIMIT} seconds")
    if process.returncode:
        sys.exit(output)
    found: dict[str, float] = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    return found


def campaign(folder: Path, rounds: int, more: Sequence[str], displays: int | None) -> dict[Any, Any]:
    """Return predicted and measured seconds of each row, one pair for each round."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for number in range(rounds):
        for updates, (every, usual) in UPDATES.items():
            often = f'connections.dictionary.learn.every="{every}"'
            shown = displays or usual
            overrides = [often, f"run.displays={shown}"]
            overrides += more or CUT.get(updates, ())
            loaded = simulation.read(JOB, overrides)
            calibration = calibrate(loaded.network, updates, threads=1, displays=shown - 1)
            sent = traffic(simulation.plan(loaded))
            rows: list[tuple[str, str | None, int]] = [("1 rank", None, 1)]
            rows += [(f"2 ranks, {name}", rate, 2) for name, rate in LINKS.items()][:: 1 - 2 * (number % 2)]
            for row, rate, ranks in rows:
                one = start(folder, rate, ranks, overrides)
                link = Link(one.get("latency", 0.0), one.get("bandwidth", 1.0))
                predicted = by_batch(sent, calibration, link, ranks)
                measured = one["display"]
                found[updates, row].append((predicted.seconds, measured))
                over = f", link {link}" if ranks > 1 else ""
                print(
                    f"{updates}, {row}: predicted {predicted.seconds:.4g} s, measured {measured:.4g} s, "
                    f"communication {predicted.share:.1%}{over}",
                    file=sys.stderr,
                )
    return found


def report(found: dict[tuple[str, str], list[tuple[float, float]]]) -> bool:
    """Print the table; return whether it is as good as promised."""
    print("| updates | ranks, link | predicted, s/display | measured | median error | largest |")
    print("|---" * 6 + "|")
    good = True
    for updates in UPDATES:
        for row in ("1 rank", *(f"2 ranks, {name}" for name in LINKS)):
            pairs = found[updates, row]
            errors = [predicted / measured - 1 for predicted, measured in pairs]
            middle, worst = statistics.median(errors), max(errors, key=abs)
            good &= abs(middle) <= MEDIAN and abs(worst) <= WORST
            seconds = " | ".join(f"{statistics.median(column):.4g}" for column in zip(*pairs, strict=True))
            print(f"| {updates} | {row} | {seconds} | {middle:+.1%} | {worst:+.1%} |")
    promise = f"median of each row within {MEDIAN:.0%}, none beyond {WORST:.0%}"
    print(f"\n{promise}: {'yes' if good else 'no'}")
    return good


def main() -> None:
    if sys.argv[1:2] == ["--rank"]:
        measure(Path(sys.argv[2]), sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--short", action="store_true", help="one round of a small network; not to be trusted"
    )
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the hosts are removed
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Hosts(2, Path(folder)):
                pass
        except NoHosts as reason:
            sys.exit(f"skipped: {reason}")
        short = (1, SHORT, 3) if chosen.short else (chosen.rounds, (), None)
        found = campaign(Path(folder), *short)
    sys.exit(0 if report(found) or chosen.short else 1)


if __name__ == "__main__":
    main()
