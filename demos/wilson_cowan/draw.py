"""Run the oscillators and draw each slice in its place of the grid: `python demos/wilson_cowan/draw.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import petabatch

HERE = Path(__file__).parent


def trajectories(*overrides: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Run the network; return time in ms, E and I, `[times, slices]`."""
    network = petabatch.load(HERE / "network.toml", overrides).network
    found = petabatch.in_memory.run(network)
    E, I = (found.recorded[f"layers/{name}/A"].reshape(-1, network.run.batch) for name in "EI")  # noqa: E741
    return found.steps["layers/E/A"] * network.run.dt, E, I


def draw(time: np.ndarray, E: np.ndarray, I: np.ndarray, target: Path) -> None:  # noqa: E741
    """Draw E and I of each slice over time: rows are inputs to E, columns inputs to I."""
    inputs = petabatch.load(HERE / "network.toml").network.slices
    figure = Figure(figsize=(10, 8), layout="constrained")
    axes = figure.subplots(8, 8, sharex=True, sharey=True)
    late = time > time[-1] / 2
    for number, ax in enumerate(axes.flat):
        ax.plot(time, E[:, number], color="#305080", lw=0.9)
        ax.plot(time, I[:, number], color="#b03030", lw=0.9)
        if np.ptp(E[late, number]) > 0.02:
            ax.set_facecolor("#fdf3d8")
        ax.set_ylim(0, 0.5)
        if number % 8 == 0:
            ax.set_ylabel(f"{inputs['layers.E.input'][number]:g}")
        if number >= 56:
            ax.set_xlabel(f"{inputs['layers.I.input'][number]:g}")
    figure.supxlabel("input to I")
    figure.supylabel("input to E")
    figure.suptitle("E (blue) and I (red) over 400 ms; shaded: oscillations that last", fontsize=11)
    figure.savefig(target, dpi=90)


if __name__ == "__main__":
    draw(*trajectories(), HERE / "oscillators.png")
