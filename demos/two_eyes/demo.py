"""# Two eyes

A dictionary for two eyes. Each feature has a patch for what the left and one for what the right eye sees.
Features with the same patch in both eyes code what is fixated, those with shifted patches what is nearer or
farther.
"""

# %% [markdown]
# ## Network
#
# The sparse-coding loop of image, error, code and reconstruction; the image has two channels, one for each
# eye. Images are crops of the stereo pair included in scikit-image, in grey, a third as large. The right one
# is shifted so that the middle of the scene has disparity 0.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import stereo_motorcycle

import petabatch
from petabatch import plotting

left, right, disparity = stereo_motorcycle()
shift = round(float(np.median(disparity[np.isfinite(disparity) & (disparity > 0)])))
both = np.stack([left, np.roll(right, shift, axis=1)], axis=-1).mean(axis=2) / 255  # [row, column, eye]
rows, columns = both.shape[0] // 3, both.shape[1] // 3
eyes = both[: 3 * rows, : 3 * columns].reshape(rows, 3, columns, 3, 2).mean(axis=(1, 3))[:, 30:]
Path("runs/demos").mkdir(parents=True, exist_ok=True)
np.save("runs/demos/two_eyes.npy", eyes[None].astype(np.float32))  # without the columns that were rolled in
params = petabatch.load("demos/two_eyes/two_eyes.toml")

# %% [markdown]
# ## Run
#
# Twenty seconds on two cores.

# %%
run = petabatch.run(params, "runs/demos/two_eyes", force=True)

# %% [markdown]
# ## Look
#
# Each feature has the patch of the left eye on the left.

# %%
plt.style.use(plotting.STYLE)
figure = plotting.dictionary(run, title="64 features of two patches of 10 × 10: left eye | right eye")
figure.savefig("runs/demos/two_eyes.png")
print("figure: runs/demos/two_eyes.png")
