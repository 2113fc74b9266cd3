"""Plot that compares runs, or the slices of one run."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.errors import InputError, PetabatchError
from petabatch.plotting.curves import at_record, curve, drawn, ends, left_out, mark_gaps, meaning
from petabatch.plotting.figures import colours, from_zero, grid, grid_of_panels, styled
from petabatch.plotting.options import Steps, Title, Unit
from petabatch.plotting.patches import read_dictionary
from petabatch.plotting.texts import capital, heading, legend_below, points, wrapped
from petabatch.plotting.words import TimeAxis, of_slice, quantity, time_axes
from petabatch.results import Results
from petabatch.storage.files import RUN_FILES

_MOST = 4
"""Probes that are drawn."""
_FEW = 6
"""Slices that all have a colour."""
_PREFERRED = ("total", "fraction", "rate", "cv", "psnr")


def find(run: Results, *others: Results) -> list[str]:
    """Return the quantities of probes that all runs have, those that matter most first."""
    names = [name for name in run if name.startswith("probes/") and len(run[name])]
    names = [name for name in names if all(name in other and len(other[name]) for other in others)]
    if not names:
        whose = "that all of these runs have" if others else "to compare its slices by"
        raise InputError(f"{run.path}: there is no probe {whose}\n    hint:     add one to [probes]")
    if not others and run.batch == 1:
        raise InputError(f"{run.path}: a single run of a single slice has nothing to compare")
    chosen = [name for end in _PREFERRED for name in names if name.endswith(f"/{end}")]
    return (chosen or names)[:_MOST]


@styled
def compare(
    run: Results,
    *others: Results,
    unit: Unit = "",
    steps: Steps = False,
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return the probes of several runs together, and how alike their features are; or the slices of one run.

    Lines are means over slices, bands percentiles 10 to 90 of the slices. Of many displays with several
    records each, those at their ends are drawn. The similarity of features is the absolute cosine of their
    patches: of each feature of the first run with its best match. Of the slices of one run, two have colours,
    if there are many: those with the smallest and the largest mean of the first quantity, in the last quarter
    of the run.
    """
    names = find(run, *others)
    runs = [run, *others]
    alike = _similarities(runs) if others else []
    times = time_axes(runs, unit)
    figure, places = grid_of_panels(figure, len(names) + bool(alike), 2.2)
    chosen = {} if others else _chosen(run, names[0])
    scale = colours(len(runs) if others else len(chosen))
    at_ends = any(ends(one[name], one.display) for one in runs for name in names)
    for axis, name in zip(places, names, strict=False):
        if others:
            _runs(axis, runs, name, times, scale)
        else:
            _slices(axis, run, name, times[0], chosen, scale)
        for one, time in zip(runs, times, strict=True):
            mark_gaps(axis, one.gaps, time.per)
        times[0].label_axis(axis, steps and len({time.per for time in times}) == 1)
        if all(len(one[name]) == 1 for one in runs):
            at_record(axis, run[name].steps, times[0])
        axis.set_ylabel(wrapped(quantity(run, name, names), 1.7, points("axes.labelsize")))
        from_zero(axis, axis.dataLim.y0)
        grid(axis)
    if others:
        labels = ["; ".join([name, *left_out(one)]) for name, one in zip(_labels(runs), runs, strict=True)]
        lines, notes = places[0].lines[: len(runs)], meaning([one.batch for one in runs], at_ends)
    else:
        labels, lines = list(chosen.values()), [places[0].lines[number] for number in chosen]
        if len(chosen) < run.batch:
            labels.append(f"the other {run.batch - len(chosen)} slices")
            lines.append(next(line for number, line in enumerate(places[0].lines) if number not in chosen))
        notes = [*meaning([1], at_ends), *left_out(run)]
    if alike:
        _alike(places[len(names)], alike, scale)
    legend_below(figure, lines, labels, capital("; ".join(notes)))
    heading(figure, title, (f"{len(runs)} runs compared" if others else f"{run.batch} slices of a run"))
    return figure


def _runs(axis: Any, runs: list[Results], name: str, times: list[TimeAxis], scale: list[str]) -> None:
    for run, time, colour, label in zip(runs, times, scale, _labels(runs), strict=True):
        steps, mean, band = curve(run, run[name])
        axis.plot(steps / time.per, mean, color=colour, label=label, marker="o" if len(steps) == 1 else None)
        axis.fill_between(steps / time.per, *band.T, color=colour, alpha=0.15, linewidth=0)


def _chosen(run: Results, name: str) -> dict[int, str]:
    """Return the slices that have a colour, in all panels the same, and what the legend says of them."""
    if run.batch <= _FEW:
        return {number: of_slice(run, number) for number in range(run.batch)}
    _, values = drawn(run, run[name])
    there = values[~np.isnan(values).all(axis=1)]
    last = there[-max(1, len(there) // 4) :].mean(axis=0)
    known = np.flatnonzero(~np.isnan(last)) if not np.isnan(last).all() else np.arange(1)
    words = {"smallest": int(known[last[known].argmin()]), "largest": int(known[last[known].argmax()])}
    what = quantity(run, name).split(" (")[0]
    what = what[0].lower() + what[1:] if what[1:2].islower() else what
    return {
        number: f"{of_slice(run, number)}: {size} mean {what} in the last quarter"
        for size, number in words.items()
    }


def _slices(
    axis: Any, run: Results, name: str, time: TimeAxis, chosen: dict[int, str], scale: list[str]
) -> None:
    steps, values = drawn(run, run[name])
    lines = axis.plot(
        steps / time.per, values, color="#c0c0c0", lw=0.5, marker="o" if len(steps) == 1 else None
    )
    for number, line in enumerate(lines):
        line.set_label(of_slice(run, number))
    for number, colour in zip(chosen, scale, strict=True):
        lines[number].set(color=colour, lw=1.2, zorder=3)


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


def _alike(axis: Any, alike: list[np.ndarray], scale: list[str]) -> None:
    for values, colour in zip(alike, scale[1:], strict=True):
        axis.plot(np.arange(1, len(values) + 1), np.sort(values)[::-1], color=colour, clip_on=False)
    axis.set(
        xlabel="Rank of the feature by similarity",
        ylabel="Similarity of dictionaries",
        ylim=(0, 1.02),
    )
    axis.locator_params(axis="x", integer=True)
    grid(axis)


def _labels(runs: list[Results]) -> list[str]:
    """Return names of the runs: of their directories, with as many parents as it takes to tell them apart."""
    folders = [(run.path.parent if run.path.name in RUN_FILES else run.path).parts for run in runs]
    for length in range(1, max(map(len, folders))):
        names = ["/".join(parts[-length:]) for parts in folders]
        if len(set(names)) == len(names):
            return names
    return ["/".join(parts) for parts in folders]
