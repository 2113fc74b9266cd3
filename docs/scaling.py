"""The figure of docs/scaling.md: `python docs/scaling.py` calibrates, predicts, writes docs/scaling.png."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from petabatch import params
from petabatch.bench.prediction.calibrate import calibrate
from petabatch.bench.prediction.figure import ranks_axis
from petabatch.bench.prediction.link import NAMED
from petabatch.bench.prediction.model import by_batch
from petabatch.bench.prediction.traffic import traffic
from petabatch.plotting.figures import MUTED, colours, grid_of_panels, styled
from petabatch.plotting.files import finish
from petabatch.plotting.texts import axes_title, heading, legend_below

HERE = Path(__file__).parent
JOB = HERE.parent / "params" / "natural_images.toml"
UPDATES = {"display": "o-", "10 steps": "s--"}
RANKS = [2**exponent for exponent in range(13)]
STRONG, EACH = 4096, 16
KRIZHEVSKY = {4: 3.74 / 4, 8: 6.25 / 8}


@styled
def draw() -> Any:
    """Return the figure."""
    figure, (strong, weak) = grid_of_panels(None, 2, 3.0)
    for every, line in UPDATES.items():
        often = f'connections.dictionary.learn.every="{every}"'
        calibration = calibrate(params.read(JOB, [often]).network, JOB.name, threads=1)
        found, large = (
            traffic(params.plan(params.read(JOB, [often, f"run.batch={batch}"]))) for batch in (EACH, STRONG)
        )
        for colour, (name, link) in zip(colours(len(NAMED)), NAMED.items(), strict=True):
            same = [by_batch(large, calibration, link, ranks) for ranks in RANKS]
            more = [by_batch(replace(found, batch=EACH * n), calibration, link, n) for n in RANKS]
            style = {"color": colour, "label": f"{name}, update every {every}", "ms": 2.5, "lw": 1.0}
            strong.plot(RANKS, [one.efficiency(same[0]) for one in same], line, **style)
            weak.plot(RANKS, [more[0].seconds / one.seconds for one in more], line, **style)
    for axes, title in ((strong, f"{STRONG:,} slices"), (weak, f"{EACH} slices for each rank")):
        axes_title(axes, title)
        axes.set_ylim(0, 1.05)
        ranks_axis(axes, RANKS)
    strong.plot(
        [*KRIZHEVSKY], [*KRIZHEVSKY.values()], "x", color=MUTED, label="Krizhevsky 2014, measured on GPUs"
    )
    strong.set_ylabel("Parallel efficiency")
    legend_below(figure, *strong.get_legend_handles_labels())
    heading(figure, f"Prediction, not measured: {JOB.name}, one rank per core")
    return figure


if __name__ == "__main__":
    finish(draw(), HERE / "scaling.png")
