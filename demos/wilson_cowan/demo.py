"""# Wilson-Cowan oscillators

Pairs of an excitatory and an inhibitory population of neurons (Wilson and Cowan, Biophysical Journal 12,
1972). For which inputs do they oscillate?
"""

# %% [markdown]
# ## Network
#
# The batch is the experiment: each of 64 slices has its own input to the two populations, on a grid of 8 by 8
# values. `network.toml` has the equations of the populations.

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
# Each slice in its place: rows are inputs to E, columns inputs to I. An oscillation lasts if its amplitude in
# the last 100 ms is at least 90 % of that in the 100 ms before; others decay to a fixed point.

# %%
E, I = (run.layer(name)[...][:, :, 0, 0, 0] for name in "EI")  # [time, slice]  # noqa: E741
time = run.layer("E").steps * params.network.run.dt
inputs = params.network.slices
before, after = (np.ptp(part, axis=0) for part in np.array_split(E[time > time[-1] / 2], 2))
lasting = (after > 0.02) & (after > 0.9 * before)
plt.style.use(plotting.STYLE)
figure, grid = plt.subplots(8, 8, figsize=(7.2, 5.8), sharex=True, sharey=True, layout="constrained")
for number, axes in enumerate(grid.flat):
    lines = [axes.plot(time, each[:, number], lw=0.9)[0] for each in (E, I)]
    axes.set(xlim=(0, 400), xticks=(0, 200, 400), ylim=(0, 0.5), yticks=(0, 0.5))
    axes.set_facecolor("#fdf3d8" if lasting[number] else "white")
    if number % 8 == 0:
        name = f"{inputs['layers.E.parameters.input'][number]:g}"
        axes.set_ylabel(name, rotation=0, ha="right", va="center")
    if number < 8:
        axes.set_title(f"{inputs['layers.I.parameters.input'][number]:g}".replace("-", "−"), loc="center")
figure.suptitle("Input to I", x=0.55, fontsize="medium")
figure.supxlabel("Time (ms)", x=0.55)
figure.supylabel("Input to E")
shaded = grid[0, 0].fill([], [], color="#fdf3d8")
names = ["activity of E", "activity of I", "oscillations that last"]
figure.legend([*lines, *shaded], names, loc="outside lower left", ncols=3)
print(f"{lasting.sum()} of 64 oscillate")
figure.savefig("runs/demos/wilson_cowan.png")
print("figure: runs/demos/wilson_cowan.png")
