"""# Eight seeds of a dictionary

Does a dictionary depend on chance? Eight of them learn in one run, from eight seeds: each slice has its own
weights, random start, and order of crops.
"""

# %% [markdown]
# ## Network
#
# `seeds.toml` sweeps `run.seed`; the weights are `shared` by the positions of a slice, but not by the slices.
# The learning rate falls from 0.5 to 0.02 over 500 updates. Every 25 displays, all dictionaries code the
# middle of two photographs that none has seen.

# %%
import matplotlib.pyplot as plt
import numpy as np

import petabatch
from petabatch import plotting

params = petabatch.load("demos/seeds/seeds.toml")

# %% [markdown]
# ## Run
#
# Twenty seconds on two cores.

# %%
run = petabatch.run(params, "runs/demos/seeds", force=True)

# %% [markdown]
# ## Look
#
# Similar features of different seeds are not in the same place: they are sorted by their mean frequency.

# %%
weights = run.weights("dictionary")[-1]  # [seed, feature, row, column, 1]
seeds = run.coordinates["seed"]
energy = run["probes/evaluate/energy_total"]
plt.style.use(plotting.STYLE)
figure = plt.figure(figsize=(7.2, 4.1), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=[1.2, 1])
for axes, seed, features in zip(above.subplots(2, 4).flat, seeds, weights, strict=True):
    power = np.abs(np.fft.rfft2(features[..., 0])) ** 2
    frequency = (power * np.hypot(np.fft.fftfreq(8)[:, None], np.fft.rfftfreq(8))).sum(axis=(1, 2))
    ordered = features[np.argsort(frequency / power.sum(axis=(1, 2)))]
    tiles = ordered[..., 0] / np.abs(ordered[..., 0]).max(axis=(1, 2), keepdims=True)
    framed = np.pad(tiles, ((0, 0), (0, 1), (0, 1)), constant_values=0.4)  # the grey of frames
    pixels = framed.reshape(4, 8, 9, 9).swapaxes(1, 2).reshape(36, 72)[:-1, :-1]
    axes.imshow(pixels, cmap="gray", vmin=-1, vmax=1)
    plotting.bare(axes, title=f"Seed {seed}")
left, right = below.subplots(1, 2, width_ratios=[1.6, 1])
lines = left.plot(energy.displays, energy[...], color="0.75", lw=0.8)
mean = left.plot(energy.displays, energy[...].mean(axis=1))
left.legend([lines[0], *mean], ["a seed", "mean of eight"])
left.set(xlabel="Display", ylabel="Held-out energy")
last = energy[-1]
right.plot(seeds, last, "o")
right.set(xlabel="Seed", ylabel="Held-out energy", xticks=seeds)
right.axhline(last.mean(), color="0.75", lw=0.8, zorder=0)
right.set_title(f"At the end: mean {last.mean():.1f}, s.d. {last.std(ddof=1):.1f}")
figure.savefig("runs/demos/seeds.png")
print("figure: runs/demos/seeds.png")
