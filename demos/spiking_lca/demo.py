"""# A spiking LCA

Integrate-and-fire neurons that inhibit each other compute a sparse code: their rates go to the solution of
the Lasso (Shapero, Zhu, Hasler and Rozell, International Journal of Neural Systems 24, 2014; Tang, Lin and
Davies, arXiv 1705.05475, 2017).
"""

# %% [markdown]
# ## Network
#
# Six signals of 32 numbers, each the sum of five of 64 features, and noise; one slice for each. A neuron is
# driven by the product of its feature with the signal less the threshold, and a spike inhibits others by the
# product of both features, as an exponential current.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import petabatch
from petabatch import plotting

SIGNALS, SIZE, FEATURES, THRESHOLD = 6, 32, 64, 0.1


def problem(seed=0):
    """Write drives and weights of the network; return the features `[size, features]` and the signals."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(SIZE, FEATURES))
    features /= np.linalg.norm(features, axis=0)
    code = np.zeros((SIGNALS, FEATURES))
    for each in code:
        each[rng.choice(FEATURES, 5, replace=False)] = rng.uniform(0.5, 1.5, 5)
    signals = code @ features.T + 0.02 * rng.normal(size=(SIGNALS, SIZE))
    Path("runs/demos").mkdir(parents=True, exist_ok=True)
    np.save("runs/demos/spiking_lca_drives.npy", (signals @ features).reshape(SIGNALS, 1, 1, -1))
    weights = features.T @ features - np.eye(FEATURES)
    np.save("runs/demos/spiking_lca_weights.npy", weights.reshape(FEATURES, 1, 1, FEATURES))
    return features, signals


def lasso(features, signals):
    """Return the minimum of 0.5 |signal - features a|^2 + threshold sum(a), a >= 0, by coordinate descent."""
    gram, drives, a = features.T @ features, signals @ features, np.zeros((SIGNALS, FEATURES))
    for _ in range(2000):
        for n in range(FEATURES):
            a[:, n] = np.maximum(0, drives[:, n] - THRESHOLD - a @ gram[:, n] + a[:, n])
    return a


features, signals = problem()

# %% [markdown]
# ## Run
#
# Seconds, once compiled.

# %%
run = petabatch.run(petabatch.load("demos/spiking_lca/network.toml"), "runs/demos/spiking_lca", force=True)

# %% [markdown]
# ## Look
#
# Rates since the beginning, beside the solution of the Lasso.

# %%
exact = lasso(features, signals)
counts = np.cumsum(run.layer("code")[:, :, 0, 0], axis=0)  # [step, slice, unit]
time = run.layer("code").steps * 0.01
errors = np.linalg.norm(counts / time[:, None, None] - exact, axis=2) / np.linalg.norm(exact, axis=1)
plt.style.use(plotting.STYLE)
figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.0), layout="constrained")
left.loglog(time, errors, color="0.75", lw=0.6)
left.loglog(time, errors.mean(axis=1), lw=1.2)
left.set(xlabel="Time (time constants of inhibition)", ylabel="Relative error of the rates")
left.set(xlim=(1, time[-1]), title=f"{SIGNALS} signals (grey) and their mean")
right.plot([0, 1.5], [0, 1.5], color="0.6", lw=0.9)
right.plot(exact.ravel(), (counts[-1] / time[-1]).ravel(), "o", ms=3)
right.set(xlabel="Solution of the Lasso", ylabel="Spikes in a unit of time")
print(f"relative errors at the end: {errors[-1].min():.4f} to {errors[-1].max():.4f}")
figure.savefig("runs/demos/spiking_lca.png")
print("figure: runs/demos/spiking_lca.png")
