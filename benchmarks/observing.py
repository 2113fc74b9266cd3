"""Cost of probes: the main network with its energy measured every step, every tenth step, or never.

python benchmarks/observing.py [--rounds 9] [--scale]

`params/natural_images.toml`, one display, interleaved; processor time, which is less sensitive to other load.
With `--scale` V1 has an adaptive time scale, which depends on the energy of every step.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from petabatch import builtins  # noqa: F401  (makes every built-in type known)
from petabatch.bench.trial import Trial, interleaved, ratio, run
from petabatch.spec.load import load

PARAMS = Path(__file__).parents[1] / "params" / "natural_images.toml"


def seconds(one: Trial) -> float:
    """Return the processor time of all steps."""
    engine = one.engine(1)
    begin = time.process_time()
    run(engine)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--scale", action="store_true", help="with an adaptive time scale")
    given = parser.parse_args()
    scale = ['layers.V1.time_scale={type="knee",energy="energy"}'] if given.scale else []
    trials = {
        every: Trial.of(load(PARAMS, [f'probes.energy.every="{every}"', *scale]).network, 400)
        for every in ("1 step", "10 steps", "display")
    }
    jobs = {every: lambda one=one: seconds(one) for every, one in trials.items()}
    interleaved(jobs, 1)
    found = interleaved(jobs, given.rounds)
    for every, times in found.items():
        pace = 1e6 * min(times) / trials[every].slice_steps
        print(f"every {every:9} {pace:7.1f} us per slice and step; {ratio(times, found['display']):.3f}")


if __name__ == "__main__":
    main()
