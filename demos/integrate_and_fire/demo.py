"""# Integrate-and-fire neurons

A photograph drives a sheet of spiking neurons, which inhibit their neighbours.
"""

# %% [markdown]
# ## Network
#
# `network.toml` has the neurons in one equation.

# %%
import matplotlib.pyplot as plt
import numpy as np

import petabatch
from petabatch import plotting

params = petabatch.load("demos/integrate_and_fire/network.toml")

# %% [markdown]
# ## Run
#
# A second, and some more the first time, when the neurons are compiled.

# %%
run = petabatch.run(params, "runs/demos/integrate_and_fire", force=True)

# %% [markdown]
# ## Look
#
# The spikes of some neurons in 200 ms (a step is 1 ms) for each of two images. Right, the second image and
# how often the neurons of a pixel spiked, on average over its three channels.

# %%
spikes = run["layers/sheet/A"][...]  # [step, slice, row, column, channel]
print(f"{spikes.mean():.1%} of the neurons spike in a step")
plt.style.use(plotting.STYLE)
figure = plt.figure(figsize=(7.2, 3.5), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[3, 1])
plotting.raster(run, layers=["sheet"], count=60, unit="ms", figure=left)
steps = params.network.run.display
for axes in left.axes:
    axes.axvline(steps, color="grey", ls=":", lw=1, zorder=0)  # from here on it is the second image
above, below = right.subplots(2, 1)
above.imshow(np.clip(run.layer("image")[-1, 0], 0, 1))
plotting.bare(above, title=f"Image from {steps} ms on")
rates = below.imshow(1000 * spikes[-steps:, 0].mean(axis=(0, 3)), cmap="gray", vmin=0)
plotting.bare(below, title="Mean rate since then")
right.colorbar(rates, cax=below.inset_axes((1.08, 0, 0.06, 1)), label="Rate (Hz)")
figure.savefig("runs/demos/integrate_and_fire.png")
print("figure: runs/demos/integrate_and_fire.png")
