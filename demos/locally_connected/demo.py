"""# Locally connected

Where images are aligned, as faces are, each place has features of its own. Here every unit has a patch of
weights of its own (`mode = "non_shared"`), and so has each slice: one learns from faces, the other from
other photographs.
"""

# %% [markdown]
# ## Network
#
# The images are those of `skimage.data.lfw_subset`, 100 faces and 100 others, of 25 x 25 pixels. In the
# middle of 24 x 24 pixels there are 6 x 6 places of 8 units; the patch of a unit has 12 x 12 pixels. Twenty
# faces are held out.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import lfw_subset

import petabatch
from petabatch import plotting

faces, others = np.split(lfw_subset().astype(np.float32), 2)
Path("runs/demos").mkdir(parents=True, exist_ok=True)
np.save("runs/demos/faces_seen.npy", np.stack([faces[:80], others[:80]], axis=1).reshape(160, 25, 25))
np.save("runs/demos/faces_unseen.npy", faces[80:])
params = petabatch.load("demos/locally_connected/locally_connected.toml")

# %% [markdown]
# ## Run
#
# Twenty seconds on two cores. Image number 2 d + b is shown to slice b in display d, so that slice 0 sees the
# faces.

# %%
run = petabatch.run(params, "runs/demos/locally_connected", force=True)

# %% [markdown]
# ## Look
#
# Of each place, the patch of the unit that is active most.

# %%
weights = run.weights("dictionary")[-1][..., 0]  # [slice, place y, place x, feature, row, column]
use = np.abs(run.layer("V1")[...]).mean(axis=0)  # [slice, place y, place x, feature]
energy = run["probes/evaluate/energy_total"]
plt.style.use(plotting.STYLE)
figure = plt.figure(figsize=(7.2, 4.5), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=[1, 1.5])
for row, layer in zip(above.subplots(2, 8), ("image", "recon"), strict=True):
    for number, axes in enumerate(row):
        slice_, display = divmod(number, 4)
        axes.imshow(run.layer(layer)[-1 - display, slice_, ..., 0], cmap="gray", vmin=-2, vmax=2)
        plotting.bare(axes)
        if layer == "image" and not display:
            axes.set_title(("Faces", "Other images")[slice_])
    row[0].set_ylabel({"image": "Image", "recon": "Reconstruction"}[layer], fontsize="small")
left, middle, right = below.subplots(1, 3, width_ratios=[1, 1, 1.1])
for slice_, (axes, name) in enumerate(((left, "faces"), (middle, "other images"))):
    best = use[slice_].argmax(axis=-1)[..., None, None, None]
    patches = np.take_along_axis(weights[slice_], best, axis=2)[:, :, 0]  # [place y, place x, row, column]
    patches = patches / np.abs(patches).max(axis=(2, 3), keepdims=True)
    framed = np.pad(patches, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=0.4)  # grey
    axes.imshow(framed.swapaxes(1, 2).reshape(6 * 13, 6 * 13)[:-1, :-1], cmap="gray", vmin=-1, vmax=1)
    plotting.bare(axes, title=f"Learned from {name}", xlabel="Grey margin: beyond the image")
    right.plot(energy.displays, energy[:, slice_], label=name)
    print(f"energy of unseen faces, learned from {name}: {energy[-1, slice_]:.1f}")
right.set(xlabel="Display", ylabel="Energy of unseen faces", ylim=(0, None))
right.legend(title="Learned from")
figure.savefig("runs/demos/locally_connected.png")
print("figure: runs/demos/locally_connected.png")
