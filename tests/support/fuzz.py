"""Fuzzing of every kind of file of a run, for a given time each.

    python tests/support/fuzz.py --seconds 600

Bits are flipped, files truncated, zeroed in part and swapped, also an index and a segment at once; each
damaged run is verified, repaired and resumed, merged, compacted, resumed, read and described. Printed are the
outcomes, and all that are neither the same values, but for steps that are called lost, nor a refusal with a
message; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.damage import KINDS, PAIR, USES, Outcome, campaign, make_runs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="for each kind of file")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    wrong: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        make_runs(Path(folder))
        for kind in (*KINDS, PAIR):
            counts: Counter[tuple[str, str]] = Counter()
            end = time.monotonic() + chosen.seconds
            for number, how in enumerate(itertools.cycle(("flip", "truncate", "zero", "swap")), chosen.seed):
                if time.monotonic() > end:
                    break
                for outcome in campaign(Path(folder), kind, how, tuple(USES), number):
                    counts[outcome.use, outcome.result] += 1
                    if outcome.wrong:
                        wrong.append(outcome)
                        print(outcome, flush=True)
            print(
                kind,
                ", ".join(f"{use} {result} {n}" for (use, result), n in sorted(counts.items())),
                flush=True,
            )
    print(f"{len(wrong)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
