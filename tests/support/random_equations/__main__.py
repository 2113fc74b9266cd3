"""The command line of the campaign."""

from __future__ import annotations

import argparse
import logging
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import support.random_equations
from support.random_equations.campaign import outcome_of
from support.random_equations.drawing import WORDS

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=support.random_equations.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("seed", 0), ("number", 10**6), ("compiled", 1), ("gpu", 5), ("seconds", 600)):
        parser.add_argument(f"--{name}", type=int, default=default)
    logging.getLogger("petabatch").setLevel(logging.ERROR)  # notes on what is not read
    made = outcome_of(**vars(parser.parse_args()), say=partial(print, flush=True))
    print(", ".join(f"{word} {made.words[word]:,}" for word in WORDS))
    print(", ".join(f"{where} {count:,}" for where, count in sorted(made.steps.items())))
    print(f"{made.decided:,} decided by rounding; {len(made.wrong)} lines of differences")
    missing = [word for word in WORDS if not made.words[word]]
    print(f"never drawn: {', '.join(missing) or 'none'}")
    sys.exit(bool(made.wrong or missing))
