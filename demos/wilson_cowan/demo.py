"""# Wilson-Cowan oscillators

Pairs of an excitatory and an inhibitory population of neurons (Wilson and Cowan, Biophysical Journal 12,
1972). For which inputs do they oscillate?
"""

# %% [markdown]
# ## Network
#
# The batch is the experiment: each of 64 slices has its own input to the two populations, on a grid of 8 by 8
# values. `population.py` has the populations, a plug-in whose update is compiled.

# %%
import matplotlib.pyplot as plt
import numpy as np

import petabatch
from petabatch import plotting

params = petabatch.load("demos/wilson_cowan/network.toml")

# %% [markdown]
# ## Run
#
# 400 ms in steps of 0.1 ms take two seconds.

# %%
run = petabatch.run(params, "runs/demos/wilson_cowan", force=True)

# %% [markdown]
# ## Look
#
# Each slice in its place: rows are inputs to E, columns inputs to I.

# %%
E, I = (run.layer(name)[...][:, :, 0, 0, 0] for name in "EI")  # [time, slice]  # noqa: E741
time = run.layer("E").steps * params.network.run.dt
inputs = params.network.slices
lasting = np.ptp(E[time > time[-1] / 2], axis=0) > 0.02
plt.style.use(plotting.STYLE)
figure, grid = plt.subplots(8, 8, figsize=(7.2, 5.8), sharex=True, sharey=True, layout="constrained")
for number, axes in enumerate(grid.flat):
    axes.plot(time, E[:, number], color="C0", lw=0.9)
    axes.plot(time, I[:, number], color="C1", lw=0.9)
    axes.set(ylim=(0, 0.5), facecolor="#fdf3d8" if lasting[number] else "white")
    if number % 8 == 0:
        axes.set_ylabel(f"{inputs['layers.E.input'][number]:g}")
    if number >= 56:
        axes.set_xlabel(f"{inputs['layers.I.input'][number]:g}".replace("-", "−"))
figure.supxlabel("Input to I")
figure.supylabel("Input to E")
heading = "Activity of E (blue) and I (orange) over 400 ms; shaded: oscillations that last"
figure.suptitle(heading, x=0.01, ha="left")
print(f"{lasting.sum()} of 64 oscillate")
figure.savefig("runs/demos/wilson_cowan.png")
print("figure: runs/demos/wilson_cowan.png")
