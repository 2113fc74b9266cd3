"""Draw the dictionary of a run, the most used features first: plot_dictionary.py runs/natural_images."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import choose, count, main, options, recorded

from petabatch import plotting
from petabatch.errors import InputError
from petabatch.results import Results, Series

parser = options("Draw a dictionary, the most used features first.")
parser.add_argument("--connection", help="connection to draw (default: the first recorded)")
parser.add_argument(
    "--code", help="layer whose activity gives the use of features (default: the connection's pre layer)"
)
parser.add_argument(
    "--time", type=int, default=-1, help="index of the recorded time, from the end if negative (default: -1)"
)
parser.add_argument(
    "--slice", type=int, default=0, help="slice to draw, if each slice has its own weights (default: 0)"
)
parser.add_argument(
    "--last",
    type=count,
    default=10,
    help="number of recorded codes over which to average the use (default: 10)",
)
parser.add_argument("--columns", type=count, help="features per row (default: automatic)")


def draw(run: Results, given: Any) -> Any:
    """Return the figure."""
    name = given.connection or choose(run, "connections", lambda params: True, "--connection")
    series = run.weights(name)
    if not -run.batch <= given.slice < run.batch:
        raise InputError(
            f"{run.path}: there is no slice {given.slice}\n    expected: slices from 0 to {run.batch - 1}"
        )
    weights = series[given.time, given.slice] if series.dims[1] == "batch" else series[given.time]
    code = given.code or run.params["connections"].get(name, {}).get("pre")
    use = None
    if given.code or code in recorded(run, "layers"):
        codes = run.layer(code)
        use = used(codes, given.last) if len(codes) else None
    step = series.steps[given.time]
    size = " × ".join(map(str, weights.shape[-3:-1]))
    title = f"{name}: {weights.shape[-4]} features of {size} after step {step}"
    return plotting.dictionary(weights, use, columns=given.columns, title=given.title or title)


def used(code: Series, last: int) -> np.ndarray:
    """Return the fraction of active units of each feature over the last recorded codes, `[feature]`."""
    times = range(max(0, len(code) - last), len(code))
    return np.asarray(np.mean([(code[time] != 0).mean(axis=(0, 1, 2)) for time in times], axis=0))


if __name__ == "__main__":
    main(parser, draw)
