"""# A balanced network in equations

Four thousand integrate-and-fire neurons, four fifths of them excitatory, whose currents cancel each other but
for fluctuations (Vogels and Abbott, Journal of Neuroscience 25, 2005).
"""

# %% [markdown]
# ## Network
#
# `network.toml` has three lines of equations for each population, and four connections that name the variable
# that a spike adds its weight to. Each of the four slices starts from potentials of its own.

# %%
import matplotlib.pyplot as plt
import numpy as np

import petabatch
from petabatch import plotting

params = petabatch.load("demos/cuba/network.toml")

# %% [markdown]
# ## Run
#
# A second, in 10,000 steps.

# %%
run = petabatch.run(params, "runs/demos/cuba", force=True)

# %% [markdown]
# ## Look
#
# The rate of the excitatory neurons, and how irregular their spikes are: the coefficient of variation of the
# intervals between them, 1 for a Poisson process, on average over neurons with at least five.

# %%
spikes = run.layer("exc")[...][:, 0, 0, 0]  # [step, unit] of the first slice
intervals = [np.diff(np.flatnonzero(unit)) for unit in spikes.T]
variation = [each.std() / each.mean() for each in intervals if each.size >= 5]
print(f"{spikes.sum(axis=0).mean():.1f} spikes of a neuron in a second, CV {np.mean(variation):.2f}")
plt.style.use(plotting.STYLE)
figure = plotting.raster(run, unit="ms")
figure.savefig("runs/demos/cuba.png")
print("figure: runs/demos/cuba.png")
