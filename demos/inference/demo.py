"""# Simulation-based inference

Which inputs to a network are compatible with what was measured, and how probable is each? A neural network of
[sbi](https://sbi.readthedocs.io) learns the posterior from simulations.
"""

# %% [markdown]
# ## Network
#
# The populations of [Wilson and Cowan](../wilson_cowan/README.md) for 200 ms. Of each point three numbers are
# kept: the mean of the excitatory activity in the second half, its standard deviation, and its frequency.

# %%
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import torch
from sbi.inference import NPE
from sbi.utils import BoxUniform

import petabatch
from petabatch import plotting

KEYS = ("layers.E.parameters.input", "layers.I.parameters.input")
LOW, HIGH = np.array([0.0, -1.0]), np.array([2.8, 2.5])
NETWORK = "demos/wilson_cowan/network.toml"
params = petabatch.load(NETWORK, ["run.batch=1", "run.display=2000", *(f"{key}=0.0" for key in KEYS)])


def summary(recorded: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return mean, standard deviation and frequency in Hz of E in the last 100 ms."""
    E = recorded["layers/E/A"].ravel()[200:]
    power = np.abs(np.fft.rfft((E - E.mean()) * np.hanning(len(E)), 2000)) ** 2  # to 1 Hz
    return np.array([E.mean(), E.std(), np.argmax(power) if E.std() > 1e-3 else 0.0])


def simulate(points: np.ndarray) -> np.ndarray:
    """Return the three numbers of each point `[points, 3]`, with noise of the measurement."""
    columns = dict(zip(KEYS, points.T, strict=True))
    found = np.stack([point.observed for point in petabatch.sweep(params, columns, summary)])
    return found + np.random.default_rng(len(points)).normal(0, [0.01, 0.01, 1.0], found.shape)


# %% [markdown]
# ## Run
#
# 2,000 points of the prior take ten seconds, the training a minute (`pip install sbi`).

# %%
TRUTH = np.array([1.45, -0.6])
torch.manual_seed(1)
prior = BoxUniform(torch.as_tensor(LOW), torch.as_tensor(HIGH))
points = np.random.default_rng(1).uniform(LOW, HIGH, (2000, 2))
inference = NPE(prior)
inference.append_simulations(
    *(torch.as_tensor(one, dtype=torch.float32) for one in (points, simulate(points)))
)
inference.train(training_batch_size=200, max_num_epochs=100)
observed = simulate(TRUTH[None])[0]
posterior = inference.build_posterior().sample((1000,), x=torch.as_tensor(observed, dtype=torch.float32))
posterior = posterior.numpy().astype(float)
print(f"posterior {posterior.mean(0).round(2)} +- {posterior.std(0).round(2)}, true inputs {TRUTH}")

# %% [markdown]
# ## Look
#
# What the posterior predicts is simulated again.

# %%
again = simulate(posterior[:200])
plt.style.use(plotting.STYLE)
figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.3), layout="constrained")
left.plot(*points.T, ".", color="0.85", ms=2)
left.plot(*posterior.T, ".", ms=2)
left.plot(*TRUTH, "+", color="tab:red", ms=12, mew=1.5)
left.set(xlabel="Input to E", ylabel="Input to I", title="Inputs")
right.plot(*again[:, :2].T, ".", ms=3)
right.plot(*observed[:2], "+", color="tab:red", ms=12, mew=1.5)
right.set(xlabel="Mean of E", ylabel="Standard deviation of E", title="What they predict")
names = ["prior", "posterior, and what it predicts", "true inputs, and what was observed"]
figure.legend(left.lines, names, loc="outside lower left", ncols=3)
figure.savefig("runs/demos/inference.png")
print("figure: runs/demos/inference.png")
