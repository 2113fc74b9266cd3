"""What a part costs that is added to the sparse-coding loop: a pooled readout, a reset, a mask, a delay.

python benchmarks/additions.py [--rounds 9] [--threads 1]

The network of `params/lca_fixed.toml`, one display, in memory, in turns with itself alone; processor time,
which is less sensitive to other load. Shown are median and quartiles of the ratio to the loop alone. A delay
changes the dynamics, and with them how many units are computed: the last column divides by these.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from common import introduce, options, table

from petabatch import builtins  # noqa: F401  (makes every built-in type known)
from petabatch.bench.trial import Trial, interleaved, run
from petabatch.spec.load import load
from petabatch.spec.network import Network

PARAMS = Path(__file__).parents[1] / "params" / "lca_fixed.toml"
ADDITIONS = {
    "alone": "",
    "readout": """
        layers.pooled = { type = "linear", shape = [4, 4, 128] }
        connections.pooling = { type = "pool", pre = "V1", post = "pooled" }""",
    "reset": 'layers.V1.reset = "display"',
    "mask": """
        layers.seen = { type = "constant", shape = [32, 32, 3], value = 1.0 }
        layers.masked = { type = "mask", shape = [32, 32, 3] }
        connections.error_to_masked = { type = "identity", pre = "error", post = "masked" }
        connections.seen_to_masked = { type = "identity", pre = "seen", post = "masked", channel = "mask" }
        connections.error_to_V1.pre = "masked\"""",
    "delay": "connections.recon_to_error.delay_steps = 1",
}
"""What is added, as lines of `--set`."""


def network(lines: str) -> Network:
    """Return the loop with some lines added."""
    return load(PARAMS, [line.strip() for line in lines.strip().splitlines()]).network


def seconds(trial: Trial, threads: int) -> tuple[float, float]:
    """Return the processor time of all steps, and the share of the code's units that was computed."""
    engine = trial.engine(threads)
    begin = time.process_time()
    run(engine)
    spent = time.process_time() - begin
    return spent, statistics.mean(lane.stepper.computed().get("V1", 1.0) for lane in engine.lanes)


def measure(threads: int, rounds: int) -> None:
    """Print the ratios of all additions."""
    trials = {name: Trial.of(network(lines), 400) for name, lines in ADDITIONS.items()}
    computed = {name: seconds(trial, threads)[1] for name, trial in trials.items()}
    jobs = {name: lambda trial=trial: seconds(trial, threads)[0] for name, trial in trials.items()}
    times, rows = interleaved(jobs, rounds), []
    for name, mine in times.items():
        ratios = [a / b for a, b in zip(mine, times["alone"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        pace = 1e6 * statistics.median(mine) / trials[name].slice_steps
        each = middle * computed["alone"] / computed[name]
        beside = f"{middle:.3f} ({low:.3f} to {high:.3f})"
        rows.append([name, f"{pace:.1f} us", beside, f"{computed[name]:.3f}", f"{each:.3f}"])
    print(f"{threads} thread(s), {rounds} rounds")
    table(["", "a slice and step", "to the loop alone", "computed units", "per computed unit"], rows)


def main() -> None:
    given = options(__doc__, rounds=9, threads=[1]).parse_args()
    introduce()
    for threads in given.threads:
        measure(threads, given.rounds)


if __name__ == "__main__":
    main()
