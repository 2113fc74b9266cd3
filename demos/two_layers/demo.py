"""# Two layers

A code of a code: V1 codes an image, V2 the code of V1. Both dictionaries learn at the same time. What does
a feature of the second layer look like in the image?
"""

# %% [markdown]
# ## Network
#
# Two sparse-coding loops, one on the other. The image of the second one is V1, and V2's reconstruction of V1
# feeds back to it. A feature of V2 is a patch of 4 x 4 units of V1 with 32 features each, so that it sees 14
# x 14 pixels.

# %%
import matplotlib.pyplot as plt
import numpy as np

import petabatch
from petabatch import plotting

params = petabatch.load("demos/two_layers/two_layers.toml")

# %% [markdown]
# ## Run
#
# Twenty seconds on two cores.

# %%
run = petabatch.run(params, "runs/demos/two_layers", force=True)

# %% [markdown]
# ## Look
#
# The features of V2 are drawn through those of V1: what they add to the image when V1 follows them. Below,
# crops of photographs, their reconstructions by V1, and by V2 through V1.

# %%
plt.style.use(plotting.STYLE)
figure = plt.figure(figsize=(7.2, 10.2), layout="constrained")
first, second, below = figure.subfigures(3, 1, height_ratios=[1.1, 1.6, 1.1])
plotting.dictionary(run, connection="dictionary", figure=first, title="V1: 32 features", per_row=16)
plotting.dictionary(
    run, connection="dictionary2", figure=second, title="V2: 64 features, drawn through V1", per_row=16
)
layers = {"image": "Image", "recon": "Reconstructed\nby V1", "recon2": "Reconstructed\nby V2"}
for (layer, name), row in zip(layers.items(), below.subplots(3, 8), strict=True):
    pixels = run.layer(layer)[-1][..., 0]  # [slice, row, column]
    for image, axes in zip(pixels, row, strict=True):
        axes.imshow(image, cmap="gray", vmin=-3, vmax=3)
        plotting.bare(axes)
    row[0].set_ylabel(name)
    image = run.layer("image")[-1][..., 0]
    print(f"{layer}: {np.square(image - pixels).sum() / np.square(image).sum():.0%} of the image is missing")
for name in ("active", "active2"):
    print(f"{name}: {run[f'probes/{name}/fraction'][-1].mean():.1%}")
figure.savefig("runs/demos/two_layers.png")
print("figure: runs/demos/two_layers.png")
