"""# Kuramoto's oscillators

A thousand phase oscillators with different frequencies, each coupled with all others (Kuramoto 1975;
Strogatz, Physica D 143, 2000). Above which coupling do they synchronise, and how far?
"""

# %% [markdown]
# ## Network
#
# dphase/dt = frequency + K mean(sin(other phases - phase)). In terms of the means S and C of the sines and
# cosines of all phases the sum is S cos(phase) - C sin(phase), so that connections of type `pool` make it.
# Layers `sine` and `cosine` show functions of the phases. Each of the 16 slices has its own K.

# %%
import matplotlib.pyplot as plt
import numpy as np

import petabatch
from petabatch import plotting

params = petabatch.load("demos/kuramoto/network.toml")

# %% [markdown]
# ## Run
#
# Ten seconds on one core.

# %%
run = petabatch.run(params, "runs/demos/kuramoto", force=True)

# %% [markdown]
# ## Look
#
# The order parameter R is the length of the mean of exp(i phase), 1 where all phases are the same. For
# frequencies with Cauchy's distribution of half width 1 Kuramoto's theory has R = 0 up to K = 2, and
# R = sqrt(1 - 2 / K) above.

# %%
S, C = (run.layer(name)[...][:, :, 0, 0, 0] for name in "SC")  # [time, slice]
R, time = np.hypot(S, C), run.layer("S").steps * params.network.run.dt
K = np.array(params.network.slices["layers.phases.parameters.K"])
order = R[time > time[-1] / 2].mean(axis=0)
plt.style.use(plotting.STYLE)
figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.9), width_ratios=(1.25, 1), layout="constrained")
for wanted in (1.9, 2.2, 3.0, 5.0):
    number = int(np.argmin(abs(K - wanted)))
    (line,) = left.plot(time, R[:, number], lw=0.9)
    left.annotate(
        f"K = {K[number]:g}", (time[-1], R[-100:, number].mean()), (4, 0), textcoords="offset points",
        va="center", color=line.get_color(),
    )  # fmt: skip
left.set(xlim=(0, time[-1]), ylim=(0, 1), xlabel="Time", ylabel="Order parameter R")
fine = np.linspace(2, 5.2, 300)
right.plot([0, *fine], [0, *np.sqrt(1 - 2 / fine)], color="0.6", label="theory")
right.plot(K, order, "o", ms=3.5, label="1,000 oscillators")
right.set(xlim=(0, 5.2), ylim=(0, 1), xlabel="Coupling K", ylabel="R, mean over the second half")
right.legend()
theory = np.sqrt(1 - 2 / K.clip(2))
print(f"largest difference from theory for K above 2: {abs(order - theory)[K > 2].max():.3f}")
figure.savefig("runs/demos/kuramoto.png")
print("figure: runs/demos/kuramoto.png")
