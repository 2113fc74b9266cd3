"""The campaign of random networks from the command line; it prints what is wrong, and the coverage matrix.

    python tests/support/random_networks --networks 1000 --seconds 4000 [--folder F] [--add] [--explain 600]
    python tests/support/random_networks --splits 200 --seconds 1000 [--folder FOLDER]

It ends after so many networks or seconds, and goes on from there when it is started again with its folder.
Networks of which something is wrong are kept there, and the exit code is then 1; `pairs.csv` lists all pairs,
and why some have not been drawn: what `check` refuses, with its message, and what has changed no bit. The
short form is `tests/engine/test_random_networks.py`. With `--add`, the pairs are added to those that
campaigns before have drawn, in `tests/data/pairs_drawn.npz`. With `--splits`, so many networks whose slices
ranks share are compared with one rank, some of them on real ranks.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.random_networks import tally
from support.random_networks.campaign import Campaign
from support.random_networks.matrix import missing, table, totals, write
from support.random_networks.pairs import WHERE
from support.random_networks.splitting import Splits
from support.random_networks.values import NOT_DRAWN

EVERY, PROOFS = 20, 10
"""Networks after which the campaign is stored, and keys that are then tried alone."""


def report(campaign: Campaign) -> Iterator[str]:
    """Yield what has been run, drawn and refused."""
    yield f"runs: {dict(campaign.counts)}"
    yield f"processor seconds: { {name: round(spent) for name, spent in campaign.seconds.items()} }"
    yield "\npairs drawn together, of parts that act and of what is run and compared"
    yield from totals(campaign.coverage)
    yield from missing(campaign.coverage)
    for stepper, drawn in campaign.coverage.drawn.items():
        for where in WHERE:
            yield f"\n{stepper}, pairs {where}: drawn / there are"
            yield from table(drawn, where)
    yield "\nnever drawn"
    for why in dict.fromkeys(NOT_DRAWN.values()):
        yield f"  {why}: {', '.join(word for word, other in NOT_DRAWN.items() if other == why)}"
    yield "\nrefused by check"
    yield from (f"  {count:5} {message}" for message, count in campaign.refused.most_common())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--explain", type=float, default=0, help="seconds in which `check` is asked of pairs")
    parser.add_argument("--splits", type=int, default=0)
    parser.add_argument("--add", action="store_true", help="add the pairs to the tally of the repository")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = asked.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    if asked.splits:
        splits = Splits(folder, asked.seed)
        wrong = list(splits.go(asked.splits, time.monotonic() + asked.seconds))
        print(*wrong, f"{dict(splits.counts)}, {len(wrong)} differences", sep="\n")
        return bool(wrong)
    kept = folder / "campaign.pickle"
    campaign = pickle.loads(kept.read_bytes()) if kept.exists() else Campaign(folder, asked.seed)
    begin, wrong = time.monotonic(), 0
    for part in range(campaign.counts["networks"] + EVERY, asked.networks + EVERY, EVERY):
        campaign.prove(PROOFS)
        for line in campaign.go(min(part, asked.networks), begin + asked.seconds):
            wrong += 1
            print(line, flush=True)
        spent = time.monotonic() - begin
        print(f"{campaign.counts['networks']} networks, {wrong} wrong, {spent:.0f} s", flush=True)
        kept.write_bytes(pickle.dumps(campaign))
        if spent > asked.seconds:
            break
    campaign.explain(time.monotonic() + asked.explain)
    for line in campaign.on_real_ranks():
        wrong += 1
        print(line, flush=True)
    kept.write_bytes(pickle.dumps(campaign))
    write(campaign.coverage, folder / "pairs.csv")
    print("\n".join(report(campaign)))
    if asked.add:
        print("", *tally.add(campaign.coverage), sep="\n")
    print(f"\n{campaign.counts['networks']} networks, {wrong} differences; all pairs: {folder}/pairs.csv")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
