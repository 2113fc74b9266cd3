"""Two hosts and the link between them: where the time of two ranks goes, and what they send.

    python benchmarks/hosts.py time --rounds 3         # about eight minutes
    python benchmarks/hosts.py bytes

As root, on Linux: hosts are network namespaces (tests/support/hosts.py), with one rank and one thread each.

time: the main job (params/natural_images.toml) with links of no limit, 1 Gbit/s and 100 Mbit/s, and an update
after every display and every 10 steps. The links take turns. bytes: what a host sends in a display if the
batch or the features are split, for a dictionary of patches and for one of whole images.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
from petabatch import results  # noqa: E402
from support.commands import BIN, set_all  # noqa: E402
from support.hosts import Hosts  # noqa: E402

JOB = ROOT / "params" / "natural_images.toml"
LINKS = {"no limit": None, "1 Gbit/s": "1gbit", "100 Mbit/s": "100mbit"}
UPDATES = {"every display": ("display", 20), "every 10 steps": ("10 steps", 5)}
"""`every` of the update, and displays of a run."""
WHOLE_IMAGES = (
    *(f"layers.{layer}.shape=[16, 16, 1]" for layer in ("image", "error", "recon")),
    "layers.V1.shape=[1, 1, 4096]",
    "connections.dictionary.patch=[16, 16]",
)
"""Overrides that make the main job's dictionary one of 4096 whole images of 16 x 16 pixels."""


def run(folder: Path, rate: str | None, *settings: str) -> tuple[dict[str, Any], list[int]]:
    """Return the times of both ranks of a run of the main job, and the bytes that each has sent."""
    with Hosts(2, folder, rate) as hosts:
        command = [BIN / "petabatch", "run", JOB, "--out", "run", "--force", "-q", "--threads", "1"]
        command += set_all("output.flush=1 display", *settings)
        process = hosts.mpirun([0, 1], command, folder, environment={"PYTHONPATH": str(ROOT)})
        output, _ = process.communicate(timeout=600)
        if process.returncode:
            sys.exit(output)
        sent = [hosts.sent(host) for host in (0, 1)]
    with results.open(folder / "run") as file:
        return file.attributes["rank_times"], sent


def time(folder: Path, rounds: int) -> None:
    """Print the table of seconds and shares."""
    found: dict[tuple[str, str, str], list[Sequence[float]]] = defaultdict(list)
    for number in range(rounds):
        for updates, (every, displays) in UPDATES.items():
            for reduce in ("exact", "overlapped"):
                for link in list(LINKS)[:: 1 - 2 * (number % 2)]:
                    often = f'connections.dictionary.learn.every="{every}"'
                    more = (f"run.displays={displays}", f"run.reduce={reduce}", often)
                    times, sent = run(folder, LINKS[link], *more)
                    row = (*shares(times, displays), max(sent) / displays / 1e6)
                    found[updates, reduce, link].append(row)
                    print(updates, reduce, link, *(f"{one:.4g}" for one in row), file=sys.stderr)
    print(
        "| updates | `reduce` | link | s/display | steps | updates | other rank | communication | MB sent |"
    )
    print("|---" * 9 + "|")
    for (updates, reduce, link), rows in found.items():
        seconds, *parts, sent = (statistics.median(column) for column in zip(*rows, strict=True))
        cells = " | ".join(f"{part:.1%}" for part in parts)
        print(f"| {updates} | `{reduce}` | {link} | {seconds:.3f} | {cells} | {sent:.2f} |")


def shares(times: dict[str, Any], displays: int) -> list[float]:
    """Return seconds a display, and the shares of activities in them, means of both ranks."""
    worked = [whole - kernels for whole, kernels in zip(times["all"], times["kernels"], strict=True)]
    return [max(worked) / displays] + [
        statistics.mean(spent / whole for spent, whole in zip(times[name], worked, strict=True))
        for name in ("steps", "learning", "waiting for ranks", "communication")
    ]


def bytes_sent(folder: Path, _: int) -> None:
    """Print the table of bytes."""
    print("| dictionary | slices | steps | split batch | split features |\n" + "|---" * 5 + "|")
    for name, own in (("128 patches of 8 x 8 x 3", ()), ("4096 images of 16 x 16", WHOLE_IMAGES)):
        sent = []
        for features in (1, 2):
            more = (*own, "run.batch=2", f"parallel.features={features}")
            # the difference of two runs: each has the same messages at its start and end
            few, many = (run(folder, None, *more, f"run.displays={n}")[1] for n in (2, 6))
            sent.append((max(many) - max(few)) / 4)
        print(f"| {name} | 2 | 400 | {' | '.join(f'{one / 1e6:.2f} MB' for one in sent)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("time", "bytes"))
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        {"time": time, "bytes": bytes_sent}[chosen.what](Path(folder), chosen.rounds)


if __name__ == "__main__":
    main()
