"""Choice of what to draw from what a run has recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from petabatch.arguments import whole_number
from petabatch.arrays import as_numpy, described
from petabatch.clock import Clock
from petabatch.errors import ArgumentError, InputError
from petabatch.results import Results
from petabatch.results.series import Series, times


def recorded(run: Results, folder: str) -> list[str]:
    """Return the names recorded under `layers`, `connections` or `probes`."""
    return list(dict.fromkeys(place.split("/")[1] for place in run if place.startswith(f"{folder}/")))


def choose(run: Results, folder: str, wanted: Callable[[str], int], what: str, hint: str = "") -> str:
    """Return the recorded name that is `wanted` most, the first of several; raises InputError if none is."""
    names = recorded(run, folder)
    best = max(names, key=wanted, default=None)
    if best is not None and wanted(best):
        return best
    raise InputError(
        f"{run.path}: no {what} was recorded\n    found:    {', '.join(names) or 'no'} {folder}"
        + (f"\n    hint:     {hint}" if hint else "")
    )


def with_records(run: Results, series: Series) -> Series:
    """Return the series; raises InputError if it has no records."""
    if not len(series):
        raise InputError(
            f"{run.path}: {series.name} has no records\n    found:    step {run.steps_reached} reached\n"
            "    hint:     the run may be too short for its schedule in [output]"
        )
    return series


def code_layer(run: Results, name: str | None = None) -> Series:
    """Return the activity of a code layer, by default of the first one recorded."""
    hint = 'record it in [output.layers], such as V1 = { every = "10 displays" }'
    name = name or choose(
        run,
        "layers",
        lambda layer: f"layers/{layer}/A" in run and run[f"layers/{layer}/A"].sparse,
        "code",
        hint,
    )
    return with_records(run, run.layer(name))


def image_layer(run: Results, name: str | None = None, shape: tuple[int, ...] | None = None) -> Series:
    """Return the images of an input layer, by default of the first one recorded with this shape."""
    layers = run.params.get("layers", {})

    def wanted(layer: str) -> bool:
        table = layers.get(layer, {})
        fits = shape is None or tuple(table.get("shape", ())) == shape
        return f"layers/{layer}/A" in run and table.get("type") == "input" and fits

    hint = 'record it in [output.layers], such as image = { every = "10 displays" }'
    name = name or choose(run, "layers", wanted, "input layer", hint)
    return with_records(run, run.layer(name))


def check_slice(run: Results, number: int) -> int:
    """Return a slice number counted from 0; raises InputError if there is no such slice."""
    number = whole_number("slice", number)
    if not -run.batch <= number < run.batch:
        raise InputError(
            f"{run.path}: there is no slice {number}\n    expected: slices from 0 to {run.batch - 1}"
        )
    return number % run.batch


def common_step(
    run: Results, first: Series, second: Series, step: int | None = None, display: int | None = None
) -> int:
    """Return a step as `Series.at` takes it, by default the last one at which both were recorded.

    Raises InputError if they were not both recorded then.
    """
    both = np.intersect1d(first.steps, second.steps)
    if not both.size:
        raise InputError(
            f"{run.path}: {first.name} and {second.name} have no step that is recorded of both\n"
            f"    found:    {first.steps.size} and {second.steps.size} records\n"
            "    hint:     the run may be too short for their schedules in [output]"
        )
    if step is None and display is None:
        return int(both[-1])
    at = int(first.steps[first.index(step=step, display=display)])
    if at not in both:
        found = f"step {step}" if display is None else f"display {display}"
        raise InputError(
            f"{run.path}: {first.name} and {second.name} were not both recorded at this time\n"
            f"    found:    {found}\n    expected: {times(both, first.display)}"
        )
    return at


def recorded_time(series: Series, time: int, display: int | None) -> int:
    """Return `time`, an index into the recorded times with -1 as its default, or that of a display's end."""
    if display is not None and time != -1:
        both = f"time={time}, display={display}"
        raise ArgumentError(series.name, "the time is given twice", both, "either `time` or `display`")
    index = series.index(display=display)
    return time if index is None else index


def spread(use: np.ndarray, count: int) -> np.ndarray:
    """Return `count` features, evenly spread from the most to the least used; dead ones only if all are."""
    order = np.argsort(-use, kind="stable")
    order = order[: np.count_nonzero(use) or len(order)]
    chosen: np.ndarray = order[np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int)]
    return chosen


def when(run: Results, step: int) -> str:
    """Return a step in words, as the end of a display where it is one."""
    clock = Clock(run.display or 1)
    if clock.display > 1 and step and clock.ends(step):
        return f"display {clock.complete(step):,}"
    return f"step {step:,}"


def percent(fraction: float) -> str:
    """Return a fraction in percent, with two digits."""
    value = 100 * fraction
    return f"{value:.0f} %" if value >= 10 else f"{value:.2g} %"


def psnr(image: Any, reconstruction: Any) -> float:
    """Return the peak signal-to-noise ratio in dB; the peak is the image's largest minus smallest value.

    Parameters
    ----------
    image, reconstruction
        Two arrays of one shape.

    Returns
    -------
    float
        Infinity where they are equal, minus infinity where the image alone is constant.

    Raises
    ------
    ArgumentError
        The shapes differ, or the arrays are empty.
    """
    image, reconstruction = as_numpy("image", image), as_numpy("reconstruction", reconstruction)
    if image.shape != reconstruction.shape or not image.size:
        expected = f"{list(image.shape)}, the shape of the image"
        raise ArgumentError("reconstruction", "the shapes differ", described(reconstruction), expected)
    rms = float(np.sqrt(np.square(np.subtract(image, reconstruction, dtype=float)).mean()))
    span = float(np.max(image) - np.min(image))
    return 20 * float(np.log10(span / rms)) if rms > 0 and span > 0 else float("inf" if rms == 0 else "-inf")


def quality(value: float) -> str:
    """Return a PSNR in words; a flat image, which has no range, has none."""
    return f"PSNR {value:.1f} dB" if np.isfinite(value) else "exact" if value > 0 else "flat input, no PSNR"


def learned(run: Results) -> dict[str, Any]:
    """Return the params of the dictionary: the first connection that learns, else the first with weights."""
    weighted = [c for c in run.params.get("connections", {}).values() if "patch" in c]
    return next((c for c in weighted if c.get("learn")), weighted[0] if weighted else {})
