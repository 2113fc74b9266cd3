"""# A balanced network with conductances

Four thousand integrate-and-fire neurons whose synapses are conductances (Vogels and Abbott, Journal of
Neuroscience 25, 2005): activity that sustains itself, irregular in time.
"""

# %% [markdown]
# ## Network
#
# `network.toml` has the network COBA of the review of simulators by Brette et al. (2007). Each equation is
# linear in its own variable, so that the exponential Euler method advances it. Each of the four slices starts
# from its own potentials and conductances, and receives nothing from outside.

# %%
import matplotlib.pyplot as plt
import numpy as np

import petabatch
from petabatch import plotting

params = petabatch.load("demos/coba/network.toml")

# %% [markdown]
# ## Run
#
# A second, in 10,000 steps.

# %%
run = petabatch.run(params, "runs/demos/coba", force=True)

# %% [markdown]
# ## Look
#
# Rates in spikes a second, and the coefficient of variation of the intervals between the spikes of a neuron.

# %%
for name in ("exc", "inh"):
    spikes = [run.spikes(name, slice=number) for number in range(run.batch)]
    rates = ", ".join(f"{1000 * each.rates.mean():.1f}" for each in spikes)
    print(f"{name}: {rates} spikes a second, CV {np.nanmean(spikes[0].cv()):.2f}")
plt.style.use(plotting.STYLE)
figure = plotting.raster(run, unit="ms")
figure.savefig("runs/demos/coba.png")
print("figure: runs/demos/coba.png")
