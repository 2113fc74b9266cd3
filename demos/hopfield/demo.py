"""# Hopfield's memory

An associative memory of 400 binary neurons (Hopfield, PNAS 79, 1982). How many patterns can it store?
"""

# %% [markdown]
# ## Network
#
# `binary.py` has the neurons, a plug-in whose update is compiled. The weights are the sum of the products of
# each stored pattern with itself. Each of the 64 slices starts from a pattern in which a tenth of the pixels
# are wrong.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import petabatch
from petabatch import plotting

SIDE, FLIPPED = 20, 0.1  # rows and columns of a pattern, and the share of its pixels that are wrong in a cue


def recall(load, batch=64, seed=0):
    """Store load * N patterns; return patterns, cues and what was recalled, `[slice, row, column]`."""
    rng, units = np.random.default_rng(seed), SIDE * SIDE
    patterns = rng.choice([-1.0, 1.0], size=(round(load * units), units))
    weights = patterns.T @ patterns / units
    np.fill_diagonal(weights, 0)
    wanted = patterns[np.arange(batch) % len(patterns)]
    cues = np.where(rng.random(wanted.shape) < FLIPPED, -wanted, wanted)
    np.save("runs/demos/hopfield_weights.npy", weights.reshape(units, 1, 1, units))
    np.save("runs/demos/hopfield_cues.npy", cues.reshape(-1, 1, 1, units))
    params = petabatch.load("demos/hopfield/network.toml", [f"run.batch={batch}"])
    found = petabatch.in_memory.run(params.network).recorded["layers/memory/A"][-1]
    return tuple(each.reshape(-1, SIDE, SIDE) for each in (wanted, cues, found))


# %% [markdown]
# ## Run
#
# Ten seconds on two cores.

# %%
Path("runs/demos").mkdir(parents=True, exist_ok=True)
loads = (0.02, 0.05, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2, 0.25)  # patterns over the number of neurons
recalled = {load: recall(load) for load in loads}

# %% [markdown]
# ## Look
#
# The overlap is the mean product of the pixels of two patterns, 1 where they are the same. Below are
# three slices of networks with 32 and 80 patterns, with the overlaps of the cue and of what was recalled.

# %%
plt.style.use(plotting.STYLE)
figure = plt.figure(figsize=(7.2, 5.0), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=(1.4, 1))
axes = above.subplots()
for load, (patterns, _, found) in recalled.items():
    overlap = (patterns * found).mean(axis=(1, 2))
    print(f"{load:.2f} N patterns: overlap {overlap.mean():.3f}")
    slices = axes.plot([load] * len(overlap), overlap, ".", color="C0", alpha=0.25, ms=5)
    mean = axes.plot(load, overlap.mean(), "o", color="C1", ms=6)
capacity = axes.axvline(0.138, color="grey", ls="--", lw=1)
axes.set(xlabel="Patterns per neuron (400 neurons)", ylabel="Overlap with the pattern")
names = ["a slice", f"mean of {len(overlap)} slices", "capacity of an infinite network, 0.138"]
axes.legend([*slices, *mean, capacity], names, loc="lower left")
for row, load in zip(below.subplots(2, 9), (0.08, 0.2), strict=True):
    images = [each[number] for number in range(3) for each in recalled[load]]
    names = ("Pattern", "Cue", "Recalled") * 3
    for number, (axes, image, name) in enumerate(zip(row, images, names, strict=True)):
        axes.imshow(image, cmap="gray")
        plotting.bare(axes, title=name if load == 0.08 else "")
        overlap = (images[number // 3 * 3] * image).mean()
        axes.set_xlabel("Overlap:" if name == "Pattern" else f"{overlap:.2f}", labelpad=2)
    row[0].set_ylabel(f"{load * SIDE**2:.0f} patterns")
figure.savefig("runs/demos/hopfield.png")
print("figure: runs/demos/hopfield.png")
