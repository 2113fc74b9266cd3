"""# Sparsity against threshold

How sparse should a code be? Eight thresholds in one run.
"""

# %% [markdown]
# ## Network
#
# `sparsity.toml` codes four crops of a photograph with a fixed dictionary, at eight thresholds: 8 x 4 slices,
# in which each point has the bits of the run with its threshold alone. The coefficient of the energy is swept
# with the threshold (`combine = "zip"`), for it is the penalty that the code minimises.

# %%
import matplotlib.pyplot as plt

import petabatch
from petabatch import plotting

params = petabatch.load("demos/sparsity/sparsity.toml")

# %% [markdown]
# ## Run
#
# A few seconds on two cores.

# %%
run = petabatch.run(params, "runs/demos/sparsity", force=True)

# %% [markdown]
# ## Look
#
# Small dots are the four crops.

# %%
plt.style.use(plotting.STYLE)
figure = plotting.sweep(run, against="threshold", quantities=["active/fraction", "quality/psnr"])
figure.savefig("runs/demos/sparsity.png")
print("figure: runs/demos/sparsity.png")
