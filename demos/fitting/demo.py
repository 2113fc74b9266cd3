"""# Fitting a network to a recording

Which inputs to a network explain what was measured? `scipy.optimize` asks for whole populations of points,
and each of them is one batch.
"""

# %% [markdown]
# ## Network
#
# The populations of [Wilson and Cowan](../wilson_cowan/README.md) for 200 ms, and a recording of the
# excitatory one with noise. `petabatch.sweep` yields each point when it is computed.

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy import optimize

import petabatch
from petabatch import plotting

KEYS = ("layers.E.parameters.input", "layers.I.parameters.input")
NETWORK = "demos/wilson_cowan/network.toml"
params = petabatch.load(NETWORK, ["run.batch=1", "run.display=2000", *(f"{key}=0.0" for key in KEYS)])


def traces(points: np.ndarray) -> np.ndarray:
    """Return E over time `[points, time]` for inputs `[2, points]`."""
    found = petabatch.sweep(params, dict(zip(KEYS, points, strict=True)))
    return np.stack([point.recorded["layers/E/A"].ravel() for point in found])


TRUTH = np.array([1.45, -0.6])
measured = traces(TRUTH[:, None])[0]
measured += np.random.default_rng(1).normal(0, 0.02, measured.shape)

# %% [markdown]
# ## Run
#
# `vectorized=True` hands over all points of a generation at once.

# %%
tried: list[tuple[np.ndarray, np.ndarray]] = []


def error(points: np.ndarray) -> np.ndarray:
    """Return the mean squared error of each point `[points]`."""
    found = ((traces(points) - measured) ** 2).mean(axis=1)
    tried.append((points.copy(), found))
    return found


best = optimize.differential_evolution(
    error, [(0.0, 2.8), (-1.0, 2.5)], vectorized=True, updating="deferred", popsize=20, maxiter=20,
    rng=np.random.default_rng(2), polish=False, init="sobol",
)  # fmt: skip
print(f"inputs {best.x.round(3)}, true ones {TRUTH}, after {len(tried)} batches")

# %% [markdown]
# ## Look

# %%
points, errors = (np.concatenate(column, axis=-1) for column in zip(*tried, strict=True))
time = np.arange(1, len(measured) + 1) * 0.5
plt.style.use(plotting.STYLE)
figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.9), layout="constrained")
drawn = left.scatter(*points, c=np.sqrt(errors), s=9, cmap="viridis_r")
left.plot(*TRUTH, "+", color="tab:red", ms=12, mew=1.5)
left.set(xlabel="Input to E", ylabel="Input to I", title="Points that were tried; the true inputs: +")
figure.colorbar(drawn, ax=left, label="RMS error")
right.plot(time, measured, lw=0.7, color="0.6", label="measured")
right.plot(time, traces(best.x[:, None])[0], label="best fit")
right.set(xlabel="Time (ms)", ylabel="Activity of E", xlim=(0, 200), title="The fit")
right.legend()
figure.savefig("runs/demos/fitting.png")
print("figure: runs/demos/fitting.png")
