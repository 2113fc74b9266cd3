"""# Izhikevich's network

A thousand spiking neurons, four fifths of them excitatory, with noisy input and sparse random synapses
(Izhikevich, IEEE Trans. Neural Networks 14, 2003).
"""

# %% [markdown]
# ## Network
#
# `network.toml` has the neurons as equations. The original joins all neurons; here each synapse exists with a
# probability of 0.1 and is about ten times as strong. Each slice has the same synapses and its own noise.

# %%
import matplotlib.pyplot as plt
import numpy as np

import petabatch
from petabatch import plotting

params = petabatch.load("demos/izhikevich/network.toml")

# %% [markdown]
# ## Run
#
# A second of eight slices, in two seconds on one core, once the neurons have been compiled.

# %%
run = petabatch.run(params, "runs/demos/izhikevich", force=True)

# %% [markdown]
# ## Look
#
# The spikes of the first slice, and the rates of its two populations above.

# %%
spikes = np.concatenate([run.layer(name)[...].ravel() for name in ("exc", "inh")])
print(f"{1000 * spikes.mean():.2f} spikes of a neuron in a second, in the mean")
plt.style.use(plotting.STYLE)
figure = plotting.raster(run, unit="ms")
figure.savefig("runs/demos/izhikevich.png")
print("figure: runs/demos/izhikevich.png")
