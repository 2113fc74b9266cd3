"""# Izhikevich's network

A thousand spiking neurons, four fifths of them excitatory, with noisy input and sparse random synapses
(Izhikevich, IEEE Trans. Neural Networks 14, 2003).
"""

# %% [markdown]
# ## Network
#
# `izhikevich.py` has the neurons, a plug-in whose update is compiled. The original joins all neurons; here
# each synapse exists with a probability of 0.1 and is about ten times as strong. Each slice has the same
# synapses and its own noise.

# %%
import matplotlib.pyplot as plt
import numpy as np

import petabatch

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
# The spikes of the first slice, and the rate of each slice.

# %%
layers = [run.layer(name)[...] > 0 for name in ("exc", "inh")]  # [ms, slice, row, column, 1]
spikes = np.concatenate([layer.reshape(*layer.shape[:2], -1) for layer in layers], axis=2)
print(f"{1000 * spikes.mean():.2f} spikes of a neuron in a second, in the mean")
figure = plt.figure(figsize=(9, 6), layout="constrained")
above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
time, neuron = np.nonzero(spikes[:, 0])
above.scatter(time, neuron, s=1.5, c=np.where(neuron < 800, "#305080", "#b03030"), linewidths=0)
above.set(ylabel="neuron; inhibitory in red", ylim=(0, spikes.shape[2]))
for number in reversed(range(spikes.shape[1])):
    smooth = np.convolve(1000 * spikes[:, number].mean(axis=1), np.ones(5) / 5, mode="same")
    below.plot(smooth, lw=0.4 if number else 1.2, color="grey" if number else "black")
below.set(xlabel="time (ms)", ylabel="rate (Hz)", xlim=(0, len(spikes)))
figure.savefig("runs/demos/izhikevich.png")
print("figure: runs/demos/izhikevich.png")
