"""# A network of Hodgkin-Huxley neurons

Four thousand neurons with sodium and potassium currents after Hodgkin and Huxley, and synapses that are
conductances: the network COBAHH of Brette et al. (Journal of Computational Neuroscience 23, 2007).
"""

# %% [markdown]
# ## Network
#
# `network.toml` has six equations and six rates of gates for each population. `exprel(x)` is
# (exp(x) - 1) / x, so that no rate is 0 / 0. All equations are linear in their own variable: the exponential
# Euler method advances them.

# %%
import matplotlib.pyplot as plt
import numpy as np

import petabatch
from petabatch import plotting

params = petabatch.load("demos/hodgkin_huxley/network.toml")

# %% [markdown]
# ## Run
#
# A second, in 10,000 steps.

# %%
run = petabatch.run(params, "runs/demos/hodgkin_huxley", force=True)

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
figure.savefig("runs/demos/hodgkin_huxley.png")
print("figure: runs/demos/hodgkin_huxley.png")
