"""Words for what is drawn: quantities of probes, variables of layers, and time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from petabatch.clock import HERTZ, Clock
from petabatch.plotting.texts import capital
from petabatch.results import Results

_QUANTITIES = {
    "total": "energy",
    "fraction": "active units (%)",
    "active": "active units",
    "psnr": "PSNR (dB)",
    "relative_gap": "duality gap / energy",
    "gap": "duality gap",
    "kkt": "violation of optimality",
    "cv": "CV of intervals",
}
"""Names of quantities that are shorter than their descriptions."""
_PERCENT = ("fraction",)
"""Quantities that figures give in percent."""
_LOUD = 1000.0
"""Decibels that no image has."""


class TimeAxis(NamedTuple):
    """The unit in which time is drawn."""

    per: float
    """Steps in one unit."""
    label: str
    """Of the axis."""
    unit: str
    """Of rates, such as `per step`; in Hz where the unit is known."""
    hertz: float
    """Factor from events per step to this unit."""

    def label_axis(self, axes: Any, steps: bool = False) -> None:
        """Label the x axis; with `steps`, add one of steps above."""
        axes.set_xlabel(self.label)
        self.whole_ticks(axes)
        if steps and self.per != 1:
            above = axes.secondary_xaxis("top", functions=(self._steps, self._units))
            above.set_xlabel("Step")
            above.spines["top"].set_visible(True)

    def whole_ticks(self, axes: Any) -> None:
        """Put the ticks of the x axis at whole displays or steps, unless they were chosen by hand."""
        from matplotlib.ticker import MaxNLocator

        locator = axes.xaxis.get_major_locator()
        if self.label in ("Display", "Step") and isinstance(locator, MaxNLocator):
            locator.set_params(integer=True)

    def _steps(self, units: Any) -> Any:
        return units * self.per

    def _units(self, steps: Any) -> Any:
        return steps / self.per


def time_axis(run: Results, unit: str = "", every: float = np.inf) -> TimeAxis:
    """Return how time is drawn: in the unit of `dt` if it is given, in displays if there are several.

    Otherwise, and where records are `every` few steps, so that time within displays matters, time is that of
    `dt`, in `run.unit` if that is known; else the step where `dt` is 1.
    """
    table = run.params.get("run", {})
    dt = table.get("dt", 1.0)
    dt = float(dt) if isinstance(dt, int | float) else 1.0
    per = Clock(dt=dt).steps(1.0)
    if unit:
        return _in_unit(unit, dt)
    if run.display and run.display > 1 and min(every, run.steps_reached / 2) >= run.display:
        return TimeAxis(run.display, "Display", "per display", run.display)
    if run.unit:
        return _in_unit(run.unit, dt)
    if dt == 1:
        return TimeAxis(1.0, "Step", "per step", 1.0)
    return TimeAxis(per, "Time (unit of dt)", "per unit of dt", per)


def _in_unit(unit: str, dt: float) -> TimeAxis:
    clock = Clock(dt=dt)
    if hertz := HERTZ.get(unit.replace("µ", "u")):
        return TimeAxis(clock.steps(1.0), f"Time ({unit})", "Hz", clock.steps(hertz))
    return TimeAxis(clock.steps(1.0), f"Time ({unit})", f"per {unit}", clock.steps(1.0))


def span(run: Results, steps: float, unit: str = "") -> str:
    """Return a number of steps in words: `4 steps`, or `4 ms` if the unit of `dt` is known."""
    if unit := unit or run.unit:
        return f"{steps / time_axis(run, unit).per:g} {unit}"
    return "one step" if steps == 1 else f"{steps:,g} steps"


def time_axes(runs: Sequence[Results], unit: str = "") -> list[TimeAxis]:
    """Return how the time of each run is drawn on one axis; where their units differ, all are in steps."""
    found = [time_axis(run, unit) for run in runs]
    if len({each.label for each in found}) > 1:
        return [TimeAxis(1.0, "Step", "per step", 1.0)] * len(found)
    return found


def quantity(run: Results, name: str, among: Sequence[str] = ()) -> str:
    """Return a label for what a probe measured, as `probes/energy/total`.

    Where others `among` the names have the same label, the names follow it in brackets.
    """
    label = _quantity(run, name)
    if any(_quantity(run, other) == label for other in among if other != name):
        label += f" [{name.removeprefix('probes/')}]"
    return label


def _quantity(run: Results, name: str) -> str:
    _, probe, part = name.split("/")
    table = run.params.get("probes", {}).get(probe, {})
    return in_words(part, run[name].description, table.get("type"), table.get("layer"), run.unit)


def in_words(part: str, description: str, probe: str | None, layer: str | None, unit: str = "") -> str:
    """Return a label for a quantity of a probe of this type, which measures this layer.

    `unit` is that of times, empty where it is not known.
    """
    if probe == "spike_statistics" and part in ("rate", "isi"):
        rate = "Hz" if unit in HERTZ else "per unit of dt"
        of = f" of {layer}" if layer else ""
        return f"Rate{of} ({rate})" if part == "rate" else f"Mean interval{of} ({unit or 'unit of dt'})"
    if part == "total" and probe != "energy":
        return capital(description or part)
    words = _QUANTITIES.get(part) or description.split(";")[0].split(",")[0] or part
    head, _, unit = words.partition(" (")
    text = f"{head} of {layer}" if isinstance(layer, str) else head
    return capital(f"{text} ({unit}" if unit else text)


def per_second(run: Results, name: str) -> float:
    """Return the factor by which figures give a quantity: that of rates in Hz where `run.unit` is known."""
    _, probe, part = (*name.split("/"), "", "")[:3]
    return rate_factor(part, run.params.get("probes", {}).get(probe, {}).get("type"), run.unit)


def rate_factor(part: str, probe: str | None, unit: str) -> float:
    """Return the factor of a quantity of a probe of this type, where times have this unit."""
    return HERTZ.get(unit, 1.0) if probe == "spike_statistics" and part == "rate" else 1.0


def in_figures(name: str, values: np.ndarray, factor: float = 1.0) -> np.ndarray:
    """Return values of a quantity as in figures: fractions in percent, no PSNR of flat or exact images.

    `factor` is that of `per_second`. The probe gives those thousands of dB; here they are infinite, and no
    line is drawn to them.
    """
    if not name.startswith("probes/"):
        return values
    if name.endswith("/psnr"):
        return np.where(np.abs(values) > _LOUD, np.copysign(np.inf, values), values)
    return 100.0 * values if name.endswith(_PERCENT) else factor * values


def spaced(name: str) -> str:
    """Return a name of the run file as words: `E input` for `E_input`."""
    return name.replace("_", " ")


def of_slice(run: Results, number: int) -> str:
    """Return what tells a slice from others, in words."""
    text = re.sub(r" -(?=\d)", " −", spaced(run.label(number)))
    return re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.4g}", text)


def layer_names(names: Iterable[str]) -> str:
    """Return the names of layers, and that they are layers: `layers exc and inh`."""
    different = list(dict.fromkeys(names))
    return f"layer{'s' if len(different) > 1 else ''} {' and '.join(different)}"


def variable(run: Results, place: str) -> str:
    """Return a label for a variable of a layer, as `layers/E/A`: `Activity of E`.

    The variable of an equation has its name only, in which capitals count: `v of neuron`.
    """
    _, layer, name = place.split("/")
    units = run[place].units
    unit = f" ({units})" if units != "1" else ""
    words = run[place].description.split(";")[0].split(",")[0] or name
    if words == f"variable of d{name}/dt":
        return f"{name} of {layer}{unit}"
    return capital(f"{words} of {layer}{unit}")
