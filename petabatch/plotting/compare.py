"""Plot that compares runs, or the slices of one run."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.errors import InputError, PetabatchError
from petabatch.plotting.curves import curve, drawn, ends, lost_steps, mark_gaps
from petabatch.plotting.figures import COLOURS, grid, heading, note, panels, styled
from petabatch.plotting.options import Title
from petabatch.plotting.patches import read_dictionary
from petabatch.results import Results

_MOST = 4
"""Probes that are drawn."""
_PREFERRED = ("total", "fraction", "psnr")


def find(run: Results, *others: Results) -> list[str]:
    """Return the quantities of probes that all runs have, those that matter most first."""
    names = [name for name in run if name.startswith("probes/") and len(run[name])]
    names = [name for name in names if all(name in other and len(other[name]) for other in others)]
    if not names:
        whose = "that all of these runs have" if others else "to compare its slices by"
        raise InputError(f"{run.path}: there is no probe {whose}\n    hint:     add one to [probes]")
    if not others and run.batch == 1:
        raise InputError(f"{run.path}: a single run of a single slice has nothing to compare")
    chosen = [name for name in names if name.endswith(_PREFERRED)]
    return (chosen or names)[:_MOST]


@styled
def compare(run: Results, *others: Results, title: Title = "", figure: Any = None) -> Any:
    """Return the probes of several runs together, and how alike their features are; or the slices of one run.

    Lines are means over slices, bands percentiles 10 to 90. If there are several records in each of many
    displays, they are those at the end of each display, and the spread within it. The similarity of features
    is the absolute cosine of their patches: of each feature of the first run with its best match.
    """
    names = find(run, *others)
    runs = [run, *others]
    alike = _similarities(runs) if others else []
    count = len(names) + bool(alike)
    columns = min(count, 2)
    figure, axes = panels(
        figure, (4.8 * columns, 3.3 * -(-count // columns) + 0.4), -(-count // columns), columns
    )
    places = list(axes.flat)
    for axis, name in zip(places, names, strict=False):
        _, probe, quantity = name.split("/")
        if others:
            _runs(axis, runs, name)
        else:
            _slices(axis, run, name)
        for one in runs:
            mark_gaps(axis, one.gaps)
        axis.set(xlabel="step", ylabel=f"{probe}: {quantity}")
        grid(axis)
    if alike:
        _alike(places[len(names)], alike)
    for axis in places[count:]:
        axis.set_axis_off()
    if others:
        labels = ["; ".join([name, *lost_steps(one)]) for name, one in zip(_labels(runs), runs, strict=True)]
        lines = places[0].lines[: len(runs)]
        across = 1 if any(one.gaps for one in runs) else min(3, len(runs))  # then labels are long
        figure.legend(lines, labels, loc="outside lower center", ncols=across, fontsize=9)
    heading(figure, title or (f"{len(runs)} runs" if others else f"{run.batch} slices of a run"))
    return figure


def _runs(axis: Any, runs: list[Results], name: str) -> None:
    for number, run in enumerate(runs):
        steps, mean, band = curve(run[name], run.display)
        colour = COLOURS[number % len(COLOURS)]
        axis.plot(steps, mean, color=colour, lw=1.8, marker="o" if len(steps) == 1 else None)
        axis.fill_between(steps, *band.T, color=colour, alpha=0.15, linewidth=0)
    if any(ends(run[name], run.display) for run in runs):
        note(axis, "of displays with several records: lines are their ends, bands 10–90 % within them")


def _slices(axis: Any, run: Results, name: str) -> None:
    steps, values = drawn(run[name], run.display)
    last = np.nanmean(values[-max(1, len(values) // 4) :], axis=0)
    best, worst = int(last.argmin()), int(last.argmax())
    axis.plot(steps, values, color="#b8b8b8", lw=0.6)
    for number, colour in ((best, COLOURS[0]), (worst, COLOURS[1])):
        axis.plot(steps, values[:, number], color=colour, lw=1.4, label=run.label(number))
    axis.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.1, fontsize=8)
    shown = ["at the end of each display"] if ends(run[name], run.display) else []
    coloured = "coloured: smallest and largest mean of the last quarter"
    note(axis, "; ".join([*shown, coloured, *lost_steps(run)]))


def _similarities(runs: list[Results]) -> list[np.ndarray]:
    """Return, for each further run, the similarity of each feature of the first with its best match."""
    try:
        patches = [read_dictionary(run).weights for run in runs]
    except PetabatchError:
        return []
    if any(each.shape[1:] != patches[0].shape[1:] for each in patches):
        return []
    flat = [each.reshape(len(each), -1) for each in patches]
    unit = [each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-30) for each in flat]
    return [np.abs(unit[0] @ other.T).max(axis=1) for other in unit[1:]]


def _alike(axis: Any, alike: list[np.ndarray]) -> None:
    for number, values in enumerate(alike, start=1):
        axis.plot(np.sort(values)[::-1], color=COLOURS[number % len(COLOURS)], lw=1.8)
    axis.set(
        xlabel="feature of the first run, most alike first",
        ylabel="similarity of dictionaries",
        ylim=(0, 1.02),
    )
    axis.locator_params(axis="x", integer=True)
    grid(axis)


def _labels(runs: list[Results]) -> list[str]:
    """Return names of the runs: of their directories, with as many parents as it takes to tell them apart."""
    folders = [(run.path.parent if run.path.name == "run.h5" else run.path).parts for run in runs]
    for length in range(1, max(map(len, folders))):
        names = ["/".join(parts[-length:]) for parts in folders]
        if len(set(names)) == len(names):
            return names
    return ["/".join(parts) for parts in folders]
