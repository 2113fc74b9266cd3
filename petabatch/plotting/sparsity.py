"""Plot of the sparsity of a code: over time, and of each feature."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from petabatch.plotting.curves import curve, draw_curves, ends, interrupted, over_the_run, spread_curve
from petabatch.plotting.figures import bars_by_rank, grid, grid_of_panels, styled
from petabatch.plotting.options import Code, Steps, Title, Unit
from petabatch.plotting.select import code_layer, percent, recorded, with_records
from petabatch.plotting.texts import axes_title, heading
from petabatch.plotting.words import time_axis
from petabatch.results import Results
from petabatch.results.series import Series
from petabatch.results.use import latest_codes, use_of


class Found(NamedTuple):
    """What there is to draw."""

    code: Series
    fraction: Series | None
    """Active fraction that a probe measured."""


def find(run: Results, code: str | None = None) -> Found:
    """Return a code layer, and the probe that measures its active fraction, if there is one."""
    series = code_layer(run, code)
    layer = series.name.split("/")[1]
    for name in recorded(run, "probes"):
        table = run.params.get("probes", {}).get(name, {})
        whole = table.get("layer") == layer and table.get("above") == 0 and table.get("mask") is None
        if whole and f"probes/{name}/fraction" in run:
            return Found(series, with_records(run, run[f"probes/{name}/fraction"]))
    return Found(series, None)


@styled
def sparsity(
    run: Results,
    *,
    code: Code = None,
    unit: Unit = "",
    steps: Steps = False,
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return the active fraction over the run, and how often each feature is active.

    The probability of a feature is the fraction of its units that were active in the last ten displays
    recorded.
    """
    found = find(run, code)
    layer = found.code.name.split("/")[1]
    figure, (left, right) = grid_of_panels(figure, 2, 2.4)
    probe, time = found.fraction, time_axis(run, unit)
    active = spread_curve(*_measured(found.code)) if probe is None else curve(run, probe)
    draw_curves(left, {"active": active}, time, f"Active units of {layer} (%)")
    over_the_run(run, left, time, probe is not None and ends(probe, run.display), steps)
    use = use_of(found.code)
    order = np.argsort(-use, kind="stable")
    bars_by_rank(right, 100 * use[order], list(map(str, order)))
    mean = float(use.mean())
    right.axhline(100 * mean, color="#404040", lw=0.8, ls="--")
    right.set_ylabel("Active units (%)")
    grid(right)
    dead = int(np.count_nonzero(use == 0))
    died = f"{dead:,} of {len(use):,}" if dead else "none"
    axes_title(left, "Over the run")
    axes_title(right, f"Dashed: mean {percent(mean)}; {died} dead")
    heading(figure, title, f"Sparsity of {layer}")
    return figure


def _measured(code: Series) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps, and the percentage of active units, `[time, slice]`, of the latest codes that fit."""
    found: dict[int, list[float]] = {}
    for time, slice_ in latest_codes(code):
        values = code[time, slice_]
        share = np.nan if np.isnan(values).any() else 100 * np.count_nonzero(values) / values.size
        found.setdefault(time, []).append(share)
    times = sorted(time for time in found if len(found[time]) == code.shape[1]) or sorted(found)[-1:]
    return interrupted(code, code.steps[times], np.array([found[time] for time in times]))
