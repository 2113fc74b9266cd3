"""Draw inputs and their reconstructions side by side: plot_reconstructions.py runs/natural_images."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import choose, count, learned, main, options

from petabatch import plotting
from petabatch.errors import InputError
from petabatch.results import Results

parser = options("Draw input, reconstruction and error of some slices.")
parser.add_argument("--image", help="layer of the images (default: the recorded input layer)")
parser.add_argument("--recon", help="layer of the reconstructions (default: the dictionary's post layer)")
parser.add_argument("--step", type=int, help="step to draw (default: the last at which both were recorded)")
parser.add_argument("--slices", type=int, nargs="+", help="slices to draw (default: the first eight)")
parser.add_argument("--rows", type=count, help="images per column (default: 4)")


def draw(run: Results, given: Any) -> Any:
    """Return the figure."""
    image = run.layer(given.image or choose(run, "layers", lambda p: p.get("type") == "input", "--image"))
    recon = run.layer(given.recon or learned(run).get("post", "recon"))
    both = np.intersect1d(image.steps, recon.steps)
    step = given.step if given.step is not None else both.max(initial=-1)
    if not both.size:
        raise InputError(
            f"{run.path}: {image.name} and {recon.name} have no step that is recorded of both\n"
            f"    found:    {image.steps.size} and {recon.steps.size} records\n"
            "    hint:     the run may be too short for their schedules in [output]"
        )
    if step not in both:
        raise InputError(
            f"{run.path}: {image.name} and {recon.name} were not both recorded at this step\n"
            f"    found:    {step}\n"
            f"    expected: one of {', '.join(map(str, both[-8:]))}"
        )
    slices = given.slices or list(range(min(8, run.batch)))
    if bad := [number for number in slices if not 0 <= number < run.batch]:
        raise InputError(
            f"{run.path}: there is no slice {bad[0]}\n    expected: slices from 0 to {run.batch - 1}"
        )
    inputs, recons = (
        series[int(np.flatnonzero(series.steps == step)[0])][slices] for series in (image, recon)
    )
    labels = [f"slice {number}" for number in slices]
    title = given.title or f"Reconstructions at step {step}"
    return plotting.reconstructions(inputs, recons, labels=labels, rows=given.rows, title=title)


if __name__ == "__main__":
    main(parser, draw)
