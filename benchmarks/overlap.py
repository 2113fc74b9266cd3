"""Sums that travel during the next steps (`run.reduce = "overlapped"`): what they hide, and what they cost.

    python benchmarks/overlap.py time [--rounds 3]         # about five minutes; as root, on Linux
    python benchmarks/overlap.py short [--rounds 3]        # about two minutes; as root, on Linux
    python benchmarks/overlap.py learning                  # about four minutes

time: the main job (params/natural_images.toml) on two hosts (tests/support/hosts.py), one rank and one thread
each, with links of no limit, 1 Gbit/s and 100 Mbit/s, and an update after every display and every 10 steps.
`exact` and `overlapped` take turns. Of each update: the communication, which `exact` waits for as a whole;
what `overlapped` still waits for (exposed) and what it does not (hidden); the wait for the other rank with
each; and the time of a display with `overlapped`, as a multiple of that with `exact`. Medians over rounds.

short: a smaller network, 64 slices of 16 x 16 pixels, whose updates are so frequent that the calls between
them are short, over 100 Mbit/s: the share of communication in the time of a run, which is to be at most 2 %
with updates every 50 steps, and half of that with `exact` with updates every 10 steps. Steps can hide only as
much communication as they take themselves: fewer slices (`--slices`) show where that ends.

learning: the energy at the end of a display, mean over slices and the last third of the displays, for both
and several rates; with 8 slices, on one rank, since the number of ranks changes no bit.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from hosts import JOB, LINKS, run, shares

from petabatch import in_memory, simulation

UPDATES = {"every display": ("display", 8, 1), "every 10 steps": ("10 steps", 2, 40)}
"""`every` of the update, displays of a run, and updates of a display."""
SHORT = {"every 200 steps": "display", "every 50 steps": "50 steps", "every 10 steps": "10 steps"}
SMALL = (
    "run.display=200",
    "run.displays=6",  # nothing follows the last update, whose sum is waited for
    *(f"layers.{layer}.shape=[16, 16, 3]" for layer in ("image", "error", "recon")),
    "layers.V1.shape=[8, 8, 128]",
    "connections.dictionary.learn.rate=0.05",
)
"""Overrides that make a small network of the main job."""
RATES = {"every display": (1.0, 0.4, 0.2), "every 10 steps": (0.2, 0.1, 0.05)}
WAYS = ("exact", "overlapped")


def each_update(times: dict[str, Any], displays: int, updates: int) -> list[float]:
    """Return seconds per display, and ms per update of communication and of waiting, means of ranks."""
    worked = max(whole - kernels for whole, kernels in zip(times["all"], times["kernels"], strict=True))
    spent = (statistics.mean(times[name]) for name in ("communication", "waiting for ranks"))
    return [worked / displays, *(1e3 * one / (displays * updates) for one in spent)]


def time(folder: Path, rounds: int) -> None:
    """Print the table of times."""
    found: dict[tuple[str, str, str], list[list[float]]] = defaultdict(list)
    for number in range(rounds):
        for name, (every, displays, updates) in UPDATES.items():
            for link, rate in LINKS.items():
                for reduce in WAYS[:: 1 - 2 * (number % 2)]:
                    often = f'connections.dictionary.learn.every="{every}"'
                    times, _ = run(folder, rate, f"run.displays={displays}", f"run.reduce={reduce}", often)
                    found[name, link, reduce].append(each_update(times, displays, updates))
                    print(name, link, reduce, *(f"{one:.3g}" for one in found[name, link, reduce][-1]),
                          file=sys.stderr)  # fmt: skip
    print("| updates | link | communication ms | exposed | hidden | other rank: exact, overlapped | time |")
    print("|---" * 7 + "|")
    for name in UPDATES:
        for link in LINKS:
            exact, late = (found[name, link, reduce] for reduce in WAYS)
            (_, total, wait), (_, exposed, late_wait) = (
                [statistics.median(column) for column in zip(*rows, strict=True)] for rows in (exact, late)
            )
            ratio = statistics.median(b[0] / a[0] for a, b in zip(exact, late, strict=True))
            print(
                f"| {name} | {link} | {total:.1f} | {exposed:.1f} | {total - exposed:.1f} "
                f"| {wait:.1f}, {late_wait:.1f} | {ratio:.3f} |"
            )


def short(folder: Path, rounds: int, slices: int) -> None:
    """Print the table of the shares of communication with short calls."""
    found: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for number in range(rounds):
        for name, every in SHORT.items():
            for reduce in WAYS[:: 1 - 2 * (number % 2)]:
                often = f'connections.dictionary.learn.every="{every}"'
                size = f"run.batch={slices}"
                times, _ = run(folder, LINKS["100 Mbit/s"], *SMALL, size, f"run.reduce={reduce}", often)
                seconds, *_, communication = shares(times, 1)
                found[name, reduce].append([seconds, communication])
                print(name, reduce, f"{seconds:.3f} s, {communication:.1%}", file=sys.stderr)
    print("| updates | exact: seconds, communication | overlapped |\n" + "|---" * 3 + "|")
    for name in SHORT:
        medians = (
            [statistics.median(column) for column in zip(*found[name, way], strict=True)] for way in WAYS
        )
        print(f"| {name} | " + " | ".join(f"{s:.2f}, {share:.1%}" for s, share in medians) + " |")


def learning(displays: int) -> None:
    """Print the table of energies."""
    print("| updates | rate | exact | overlapped | overlapped / exact |\n" + "|---" * 5 + "|")
    for name, (every, _, _) in UPDATES.items():
        for rate in RATES[name]:
            energies = []
            for reduce in WAYS:
                learn = "connections.dictionary.learn"
                settings = (f'{learn}.every="{every}"', f"{learn}.rate={rate}", f"run.reduce={reduce}")
                size = ("run.batch=8", f"run.displays={displays}")
                network = simulation.read(JOB, (*settings, *size)).network
                total = in_memory.run(network, threads=1).recorded["probes/energy/total"]
                energies.append(float(total[-(len(total) // 3) :].mean()))
            exact, late = energies
            print(f"| {name} | {rate:g} | {exact:.1f} | {late:.1f} | {late / exact:.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("time", "short", "learning"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--displays", type=int, default=45, help="of `learning` (default: %(default)s)")
    parser.add_argument("--slices", type=int, default=64, help="of `short` (default: %(default)s)")
    given = parser.parse_args()
    if given.what == "learning":
        learning(given.displays)
        return
    with tempfile.TemporaryDirectory() as folder:
        if given.what == "short":
            short(Path(folder), given.rounds, given.slices)
        else:
            time(Path(folder), given.rounds)


if __name__ == "__main__":
    main()
