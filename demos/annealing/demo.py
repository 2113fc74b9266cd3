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
figure, (first, left, right) = plt.subplots(1, 3, figsize=(7.2, 2.6), layout="constrained")
first.plot((1, 200, 400), (2, 0.55, 0.55))
first.plot((1, 400), (0.55, 0.55))
for name, run in runs.items():
    energy, active = (run[f"probes/{quantity}"] for quantity in ("energy/total", "active/fraction"))
    last, share = energy[-1].mean(), active[-1].mean()
    left.plot(energy.steps, energy[...].mean(axis=1), label=f"threshold {name} (final energy {last:.1f})")
    right.plot(active.steps, 100 * active[...].mean(axis=1))
    print(f"{name}: energy {last:.2f}, active {share:.2%}")
first.set(ylabel="Threshold of V1", ylim=(0, None))
left.set(ylabel=f"Energy, mean of {run.batch} images", yscale="log")
left.set_yticks([200, 400, 800, 1600], ["200", "400", "800", "1600"])
left.minorticks_off()
right.set(ylabel="Active units of V1 (%)", ylim=(0, None))
for axes in (first, left, right):
    axes.axvline(200, color="grey", ls=":", lw=1, zorder=0, label="end of annealing")
    axes.set(xlabel="Step of the display")
figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=3)
figure.savefig("runs/demos/annealing.png")
print("figure: runs/demos/annealing.png")
