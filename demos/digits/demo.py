"""# Digits classified by their codes

Codes that are recorded while a network learns belong to a dictionary that changes. To use codes as data,
learn first, then code all images with the final dictionary. How much does a classifier gain by it?
"""

# %% [markdown]
# ## Network
#
# The digits of scikit-learn, 1797 images of 8 x 8 pixels. The patches of 64 units are as large as the image.
# `learn.toml` learns the dictionary; `encode.toml` is the same network with the dictionary of its run, fixed.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import petabatch
from petabatch import plotting

TRAINED = 1200  # digits that the classifier learns from; the others were written by other people

digits = load_digits()
images = (digits.images / 16).astype(np.float32)
Path("runs/demos").mkdir(parents=True, exist_ok=True)
np.save("runs/demos/digits_images.npy", images)

# %% [markdown]
# ## Run
#
# Each digit is shown once in a run, digits 8 d to 8 d + 7 in display d; fifteen seconds on two cores, the
# classifier included. `petabatch.encode` does without a network.

# %%
learned = petabatch.run("demos/digits/learn.toml", "runs/demos/digits", force=True)
fixed = petabatch.run("demos/digits/encode.toml", "runs/demos/digits_fixed", force=True)
encoded = petabatch.encode(images, "runs/demos/digits")

# %% [markdown]
# ## Look
#
# How many of the other digits does a logistic regression on the codes recognise?

# %%
codes = {
    "recorded while learning": learned.layer("V1")[...],  # [display, slice, y, x, feature]
    "of a run with the learned dictionary": fixed.layer("V1")[...],
    "of petabatch.encode, certified": encoded.activity,
}
plt.style.use(plotting.STYLE)
figure = plt.figure(figsize=(7.2, 6.2), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=[2.5, 1])
plotting.dictionary(learned, figure=above, title="64 features of digits", per_row=16)
axes = below.subplots()
for name, code in codes.items():
    code = code.reshape(-1, 64)[: len(images)]
    model = LogisticRegression(max_iter=2000).fit(code[:TRAINED], digits.target[:TRAINED])
    score = model.score(code[TRAINED:], digits.target[TRAINED:])
    axes.barh(name, 100 * score, color="C0")
    axes.text(100 * score, name, f" {score:.0%}".replace("%", " %"), va="center")
    print(f"{name}: accuracy {score:.2f}, {np.mean(code != 0):.1%} of the units active")
axes.axvline(10, color="black", ls="--", lw=0.8)
axes.set(xlabel="Correct (%); dashed: chance", xlim=(0, 100), ylabel="Codes")
axes.set_title(f"Recognition of {len(images) - TRAINED} digits that the classifier has not seen")
axes.invert_yaxis()
figure.savefig("runs/demos/digits.png")
print("figure: runs/demos/digits.png")
