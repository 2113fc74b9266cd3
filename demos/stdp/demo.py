"""# Spike-timing-dependent plasticity

A thousand synapses onto one neuron compete: those that take part in its spikes grow, the others fade.
"""

# %% [markdown]
# ## Network
#
# `network.toml` has Poisson afferents of 15 Hz, an integrate-and-fire neuron with a conductance, and the pair
# rule. The 32 slices differ in their afferents and in the weights that they start with.

# %%
import matplotlib.pyplot as plt
import numpy as np

import petabatch
from petabatch import plotting

params = petabatch.load("demos/stdp/network.toml")

# %% [markdown]
# ## Run
#
# A hundred seconds of each slice.

# %%
run = petabatch.run(params, "runs/demos/stdp", force=True)

# %% [markdown]
# ## Look
#
# The weights of all slices at the start and at the end, some of slice 0 over time, and the rate of the neuron
# in all slices.

# %%
largest = params.network.connections["synapses"].learn.largest
weights = run["connections/synapses/weights"][...] / largest  # [time, slice, synapse]
low, high = (weights[-1] < 0.1).mean(), (weights[-1] > 0.9).mean()
print(f"of the weights, {low:.0%} end in the lowest tenth, {high:.0%} in the highest")
plt.style.use(plotting.STYLE)
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(7.2, 2.4), layout="constrained")
bins = np.linspace(0, 1, 21)
left.hist(weights[0].ravel(), bins, density=True, histtype="step", label="start")
left.hist(weights[-1].ravel(), bins, density=True, alpha=0.6, label="end")
left.set(xlabel="Weight / largest", ylabel="Density")
left.legend()
seconds = np.linspace(0, params.network.run.displays, len(weights))
middle.plot(seconds, weights[:, 0, ::25], lw=0.6)
middle.set(xlabel="Time (s)", ylabel="Weight / largest")
edges = np.arange(params.network.run.displays + 1)
for number in range(weights.shape[1]):
    times = run.spikes("neuron", slice=number).times / 1000
    right.plot(edges[1:], np.histogram(times, edges)[0], color="C0", alpha=0.2, lw=0.6)
right.set(xlabel="Time (s)", ylabel="Rate of the neuron (Hz)", ylim=(0, None))
figure.savefig("runs/demos/stdp.png")
print("figure: runs/demos/stdp.png")
