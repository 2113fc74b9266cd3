"""# Digits classified by their codes

Codes that are recorded while a network learns belong to a dictionary that changes. To use codes as data,
learn first, then code all images with the final dictionary. How much does a classifier gain by it?
"""

# %% [markdown]
# ## Network
#
# The digits of scikit-learn, 1797 images of 8 x 8 pixels. The patches of 64 units are as large as the image.
# `learn.toml` learns the dictionary, without a rate; `encode.toml` is the same network with the dictionary of
# its run, fixed. The estimator `DictionaryLearner` does both in a pipeline of scikit-learn.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import petabatch
from petabatch import plotting
from petabatch.sklearn import DictionaryLearner

TRAINED = 1200  # digits that the classifier learns from; the others were written by other people

digits = load_digits()
images = (digits.images / 16).astype(np.float32)
Path("runs/demos").mkdir(parents=True, exist_ok=True)
np.save("runs/demos/digits_images.npy", images)

# %% [markdown]
# ## Run
#
# Each digit is shown once in a run, digits 8 d to 8 d + 7 in display d; ten seconds on two cores, the
# classifier included. `petabatch.encode` and the estimator do without a network.

# %%
learned = petabatch.run("demos/digits/learn.toml", "runs/demos/digits", force=True)
fixed = petabatch.run("demos/digits/encode.toml", "runs/demos/digits_fixed", force=True)
encoded = petabatch.encode(images, "runs/demos/digits")

known, asked = digits.target[:TRAINED], digits.target[TRAINED:]
spread = images.std(axis=(1, 2), keepdims=True)
vectors = ((images - images.mean(axis=(1, 2), keepdims=True)) / spread).reshape(len(images), -1)
learner = DictionaryLearner(64, penalty=1.5, signed=False, random_state=0)
pipeline = make_pipeline(learner, LogisticRegression(max_iter=2000)).fit(vectors[:TRAINED], known)

# %% [markdown]
# ## Look
#
# How many of the other digits does a logistic regression on the codes recognise?

# %%
codes = {
    "recorded while learning": learned.layer("V1")[...],  # [display, slice, y, x, feature]
    "of a run with the learned dictionary": fixed.layer("V1")[...],
    "of petabatch.encode, certified": encoded.activity,
    "of a pipeline of scikit-learn": pipeline[0].transform(vectors),
}
scores = {}
plt.style.use(plotting.STYLE)
figure = plt.figure(figsize=(7.2, 6.2), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=[2.5, 1])
plotting.dictionary(learned, figure=above, title="64 features of digits", per_row=16)
axes = below.subplots()
for name, code in codes.items():
    code = code.reshape(-1, 64)[: len(images)]
    model = LogisticRegression(max_iter=2000).fit(code[:TRAINED], known)
    score = scores[name] = model.score(code[TRAINED:], asked)
    axes.barh(name, 100 * score, color="C0")
    axes.text(100 * score, name, f" {score:.0%}".replace("%", " %"), va="center")
    print(f"{name}: accuracy {score:.2f}, {np.mean(code != 0):.1%} of the units active")
axes.axvline(10, color="black", ls="--", lw=0.8)
axes.set(xlabel="Correct (%); dashed: chance", xlim=(0, 100), ylabel="Codes")
axes.set_title(f"Recognition of {len(images) - TRAINED} digits that the classifier has not seen")
axes.invert_yaxis()
figure.savefig("runs/demos/digits.png")
print("figure: runs/demos/digits.png")
