"""Run the network for a second in eight slices, and draw its spikes: `python demos/izhikevich/draw.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import petabatch

HERE = Path(__file__).parent


def spikes(*overrides: str) -> np.ndarray:
    """Run the network; return its spikes `[ms, slices, neurons]`, the excitatory neurons first."""
    network = petabatch.load(HERE / "network.toml", overrides).network
    found = petabatch.in_memory.run(network).recorded
    layers = [found[f"layers/{name}/A"] > 0 for name in ("exc", "inh")]
    return np.concatenate([layer.reshape(*layer.shape[:2], -1) for layer in layers], axis=2)


def draw(found: np.ndarray, target: Path) -> None:
    """Draw the spikes of the first slice, and the rate of each slice."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    time, neuron = np.nonzero(found[:, 0])
    above.scatter(time, neuron, s=0.6, c=np.where(neuron < 800, "#305080", "#b03030"), linewidths=0)
    above.set_ylabel("neuron; inhibitory in red")
    above.set_ylim(0, found.shape[2])
    for number in range(found.shape[1]):
        rate = found[:, number].mean(axis=1) * 1000
        smooth = np.convolve(rate, np.ones(5) / 5, mode="same")
        below.plot(smooth, lw=1.2 if number == 0 else 0.4, color="black" if number == 0 else "grey")
    below.set_ylabel("rate (Hz)")
    below.set_xlabel("time (ms)")
    below.set_xlim(0, len(found))
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    found = spikes(*sys.argv[1:])
    print(f"{1000 * found.mean():.2f} spikes of a neuron in a second, in the mean")
    draw(found, HERE / "spikes.png")
