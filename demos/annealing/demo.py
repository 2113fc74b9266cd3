"""# An annealed threshold

Does a threshold that falls within a display find better codes? Strong features become active first, before
there are others to compete with.
"""

# %% [markdown]
# ## Network
#
# Sparse coding of a photograph with a fixed dictionary. The threshold falls from 2 to 0.55 in the first half
# of a display of 400 steps, or is 0.55 throughout.

# %%
import matplotlib.pyplot as plt

import petabatch
from petabatch import plotting

file = "demos/annealing/annealing.toml"

# %% [markdown]
# ## Run
#
# A few seconds on two cores.

# %%
runs = {
    "annealed, 2 to 0.55": petabatch.run(file, "runs/demos/annealing", force=True),
    "constant, 0.55": petabatch.run(
        petabatch.load(file, ["layers.V1.threshold=0.55"]), "runs/demos/annealing_constant", force=True
    ),
}

# %% [markdown]
# ## Look
#
# Both minimise the same energy in the end.

# %%
plt.style.use(plotting.STYLE)
figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.7), layout="constrained")
for name, run in runs.items():
    for axes, quantity, unit in ((left, "energy/total", 1), (right, "active/fraction", 100)):
        series = run[f"probes/{quantity}"]
        axes.plot(series.steps, unit * series[...].mean(axis=1), label=name)
    energy, active = (
        run[f"probes/{quantity}"][-1].mean() for quantity in ("energy/total", "active/fraction")
    )
    print(f"{name}: energy {energy:.2f}, active {active:.2%}")
left.set(xlabel="Step of the display", ylabel=f"Energy, mean of {run.batch} images", yscale="log")
left.set_yticks([200, 400, 800, 1600], ["200", "400", "800", "1600"])
left.minorticks_off()
for axes in (left, right):
    axes.axvline(200, color="grey", ls=":", lw=1, zorder=0, label="end of annealing")
left.legend(title="Threshold")
right.set(xlabel="Step of the display", ylabel="Active units of V1 (%)", ylim=(0, None))
figure.savefig("runs/demos/annealing.png")
print("figure: runs/demos/annealing.png")
