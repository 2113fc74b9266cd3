"""A figure of probes that follows a simulator: `sim.callback(plotting.live(), every=10)`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from petabatch.arguments import checked
from petabatch.errors import ArgumentError
from petabatch.plotting.figures import pyplot, styled
from petabatch.plotting.texts import points, wrapped
from petabatch.plotting.words import in_figures, in_words, rate_factor


class Live:
    """Curves of probes, averaged over slices, to which each call with a simulator adds a point.

    A notebook shows the figure once, and changes it in place; elsewhere it is drawn again in its window.
    """

    def __init__(self, quantities: Sequence[str] | None) -> None:
        """Take paths such as `energy/total`; by default all quantities of all probes."""
        self.figure: Any = None
        self.quantities = None if quantities is None else tuple(quantities)
        self.steps: list[int] = []
        """The steps of the points."""
        self.values: dict[str, list[float]] = {}
        """The values of each quantity at these steps."""
        self._labels: list[str] = []
        self._factors: list[float] = []
        self._shown: Any = None

    def __call__(self, sim: Any) -> None:
        """Measure, and draw."""
        if not self.values:
            self.values = {path: [] for path in self._wanted(sim)}
            self._labels = [_label(sim, path) for path in self.values]
            self._factors = [_factor(sim, path) for path in self.values]
        self.steps.append(sim.n_steps)
        for path, values in self.values.items():
            probe, _, quantity = path.partition("/")
            values.append(float(np.mean(sim[f"probes.{probe}"][quantity])))
        self._draw()
        self._show()

    def _wanted(self, sim: Any) -> tuple[str, ...]:
        known = [f"{probe}/{one}" for probe in sim.network.probes for one in sim[f"probes.{probe}"]]
        wanted = known if self.quantities is None else self.quantities
        unknown = [path for path in wanted if path not in known]
        if unknown or not wanted:
            found = unknown or wanted
            expected = ", ".join(known) or "a network with probes"
            raise ArgumentError("quantities", "there is no such quantity of a probe", found, expected)
        return tuple(wanted)

    @styled
    def _draw(self) -> None:
        if self.figure is None:
            self.figure = pyplot().figure(figsize=(7.2, 1.6 * len(self.values)), layout="constrained")
            every = self.figure.subplots(len(self.values), sharex=True, squeeze=False)[:, 0]
            for axes, path, label in zip(every, self.values, self._labels, strict=True):
                axes.plot([], [])
                name = f"{label} [{path}]" if self._labels.count(label) > 1 else label
                axes.set_ylabel(wrapped(name, 1.3, points("axes.labelsize")))
            axes.set_xlabel("Step")
            axes.locator_params(axis="x", integer=True)
        measured = zip(self.figure.axes, self.values.items(), self._factors, strict=True)
        for axes, (path, values), factor in measured:
            axes.lines[0].set_data(self.steps, in_figures(f"probes/{path}", np.array(values), factor))
            axes.relim()
            axes.autoscale_view()

    def _show(self) -> None:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        if shell is None:
            self.figure.canvas.draw_idle()
            return
        if self._shown is None:
            from IPython.display import display

            self._shown = display(self.figure, display_id=True)
            pyplot().close(self.figure)  # or the cell shows it a second time at its end
        else:
            self._shown.update(self.figure)


def _label(sim: Any, path: str) -> str:
    """Return the label of a quantity, such as `energy/total`."""
    probe, _, part = path.partition("/")
    table = sim.network.probes[probe]
    return in_words(
        part, table.quantities()[part], table.type, getattr(table, "layer", None), sim.network.run.unit or ""
    )


def _factor(sim: Any, path: str) -> float:
    probe, _, part = path.partition("/")
    return rate_factor(part, sim.network.probes[probe].type, sim.network.run.unit or "")


@checked()
def live(quantities: Sequence[str] | None = None) -> Live:
    """Return a callback for a `Simulator` that draws probes while it runs.

    Parameters
    ----------
    quantities
        Paths such as `energy/total`; by default all quantities of all probes.

    Returns
    -------
    Live
        The callback; its `figure` is one of matplotlib.

    Raises
    ------
    ArgumentError
        When it is first called, if the network has no such probe.

    Examples
    --------
    >>> with petabatch.Simulator("params/natural_images.toml") as sim:
    ...     curves = petabatch.plotting.live(["energy/total"])
    ...     sim.callback(curves, every=10)
    ...     sim.run(until=20, quiet=True)
    >>> curves.steps
    [10, 20]
    """
    return Live(quantities)
