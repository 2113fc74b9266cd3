"""# Adaptive exponential neurons

One model with the firing patterns of several kinds of neurons (Brette and Gerstner, Journal of
Neurophysiology 94, 2005).
"""

# %% [markdown]
# ## Network
#
# `network.toml` has the two equations; the slices are three sets of parameters: regular spiking, bursts and
# fast spiking. A current of 1 nA begins at 50 ms.

# %%
import matplotlib.pyplot as plt
import numpy as np

import petabatch
from petabatch import plotting

FILE = "demos/adex/network.toml"
SLOWLY = ["run.display=60000", 'output.layers.neuron={every=1,variables=["A"]}',
          "layers.neuron.parameters.rise=2000"]  # fmt: skip


def rheobase(a, tau):
    """Return the current at which the neuron begins to spike where it rises slowly, pA."""
    ratio, membrane = a / 30, 281 / 30 / tau  # of conductances, and of time constants
    if ratio > membrane:  # the fixed point becomes unstable before it is gone
        return (30 + a) * (18.2 + 2 * np.log(1 + membrane)) + 60 * (ratio - membrane)
    return (30 + a) * (18.2 + 2 * np.log(1 + ratio))


def spikes(a, tau, currents):
    """Return the number of spikes of a neuron that does not adapt by them, for currents that rise slowly."""
    values = {"a": a, "tau": tau, "b": 0.0, "after": -70.6, "current": f"{{slices={list(currents)}}}"}
    keys = [f"layers.neuron.parameters.{name}={value}" for name, value in values.items()]
    run = petabatch.in_memory.run(
        petabatch.load(FILE, [f"run.batch={len(currents)}", *SLOWLY, *keys]).network
    )
    return np.array([len(run.spikes("neuron", slice=number)) for number in range(len(currents))])


# %% [markdown]
# ## Run
#
# Two seconds on one core, once compiled.

# %%
run = petabatch.run(petabatch.load(FILE), "runs/demos/adex", force=True)
currents = [float(current) for current in range(500, 760, 10)]
counts = {a: spikes(a, 144.0, currents) for a in (0.0, 4.0)}

# %% [markdown]
# ## Look
#
# Potentials, drawn up to 20 mV in the step of a spike. On the right the current rises slowly, and the neuron
# begins to spike at the rheobase that theory has (dashed).

# %%
v, time = run.layer("neuron", "v")[...].squeeze(), run.layer("neuron").steps * 0.05
plt.style.use(plotting.STYLE)
figure = plt.figure(figsize=(7.2, 3.9), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(2, 1))
rows = left.subplots(3, 1, sharex=True, sharey=True)
for number, name in enumerate(("Regular spiking", "Bursts", "Fast spiking")):
    axes = rows[number]
    v[run.spikes("neuron", slice=number).steps - 1, number] = 20
    axes.plot(time, v[:, number], lw=0.8)
    axes.set(title=name, ylabel="Potential (mV)", xlim=(0, 500))
axes.set_xlabel("Time (ms)")
axes = right.subplots()
for a, each in counts.items():
    (line,) = axes.plot(currents, each, "o-", ms=2.5, lw=0.9, label=f"a = {a:g} nS")
    axes.axvline(rheobase(a, 144.0), color=line.get_color(), ls="--", lw=0.9)
axes.set(xlabel="Current after 2 s (pA)", ylabel="Spikes in 3 s", title="Dashed: rheobase of theory")
axes.legend()
figure.savefig("runs/demos/adex.png")
print("figure: runs/demos/adex.png")
