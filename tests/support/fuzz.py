"""Fuzzing of every kind of file of a run, for a given time each, or of pairs of them.

    python tests/support/fuzz.py --seconds 600
    python tests/support/fuzz.py --seconds 600 --pairs

Bits are flipped, files truncated, zeroed in part and swapped, also an index and a segment at once; each
damaged run is verified, repaired and resumed, merged, compacted, resumed, read and described. With `--pairs`,
two files are damaged, renamed, copied, exchanged, removed or replaced by those of another run, or one of them
and the lines that name it. Printed are the outcomes, and all that are neither the same values, but for steps
that are called lost, nor a refusal with a message; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from support import damage, damage_pairs
from support.damage import KINDS, PAIR, Outcome, make_runs

HOW = ("flip", "truncate", "zero", "swap")


def show(title: str, counts: Counter[tuple[str, str]]) -> None:
    outcomes = ", ".join(f"{use} {result} {n}" for (use, result), n in sorted(counts.items()))
    print(f"{title}: {outcomes}", flush=True)


def fuzz(title: str, seconds: float, seed: int, attempts: Callable[[int], Iterator[Outcome]]) -> int:
    """Make attempts for some seconds, print their outcomes; return how many were wrong."""
    end, wrong = time.monotonic() + seconds, 0
    counts: Counter[tuple[str, str]] = Counter()
    drawn: Counter[str] = Counter()
    for number in itertools.count(seed):
        if time.monotonic() > end:
            break
        for outcome in attempts(number):
            counts[outcome.use, outcome.result] += 1
            if outcome.wrong:
                wrong += 1
                print(outcome, flush=True)
        drawn[outcome.kind] += 1
    show(title, counts)
    if len(drawn) > 1:
        print(f"{drawn.total()} draws of {len(drawn)} combinations: {dict(drawn.most_common())}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="for each kind of file, or for pairs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", action="store_true", help="damage two things at once")
    chosen = parser.parse_args()
    logging.getLogger("petabatch").addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_runs(folder)
        if chosen.pairs:
            uses = tuple(damage_pairs.USES)
            wrong = fuzz(
                "pairs", chosen.seconds, chosen.seed, lambda n: damage_pairs.campaign(folder, uses, n)
            )
        else:
            wrong = sum(
                fuzz(
                    kind,
                    chosen.seconds,
                    chosen.seed,
                    lambda n, kind=kind: damage.campaign(
                        folder, kind, HOW[n % len(HOW)], tuple(damage.USES), n
                    ),
                )
                for kind in (*KINDS, PAIR)
            )
    print(f"{wrong} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
