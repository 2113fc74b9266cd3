"""Draw the dictionaries of all seeds side by side, and their energies on held-out images."""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np

import petabatch
from petabatch import plotting

run_directory, output = sys.argv[1:]
with petabatch.open(run_directory) as run:
    weights = run.weights("dictionary")[-1]  # [seed, feature, row, column, 1]
    seeds = run.coordinates["seed"]
    energy = run["probes/evaluate/energy_total"]
    figure = plt.figure(figsize=(11, 6.2), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1.3, 1])
    for axes, seed, features in zip(above.subplots(2, 4).flat, seeds, weights, strict=True):
        # Similar features of different seeds are not in the same place: sorted by their spectrum's centre.
        power = np.abs(np.fft.rfft2(features[..., 0])) ** 2
        across = (power * np.hypot(np.fft.fftfreq(8)[:, None], np.fft.rfftfreq(8))).sum(axis=(1, 2))
        ordered = features[np.argsort(across / power.sum(axis=(1, 2)))]
        tiles = ordered[..., 0] / np.abs(ordered[..., 0]).max(axis=(1, 2), keepdims=True)
        framed = np.pad(tiles, ((0, 0), (0, 1), (0, 1)), constant_values=1)
        axes.imshow(framed.reshape(4, 8, 9, 9).swapaxes(1, 2).reshape(36, 72), cmap="gray", vmin=-1, vmax=1)
        axes.set_title(f"seed {seed}", fontsize=10)
        axes.set_axis_off()
    left, right = below.subplots(1, 2, width_ratios=[1.6, 1])
    left.plot(energy.displays, energy[...], lw=1.2)
    left.set(xlabel="display", ylabel="energy of held-out images", yscale="log")
    last = energy[-1]
    right.plot(seeds, last, "o")
    right.set(xlabel="seed", ylabel="energy at the end", ylim=(0, 1.1 * last.max()))
    right.set_title(f"{last.mean():.1f}, standard deviation {last.std(ddof=1):.1f}", fontsize=10)
    plotting.finish(figure, output)
