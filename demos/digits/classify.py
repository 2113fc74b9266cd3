"""Classify digits by their codes: python demos/digits/classify.py RUN_OR_CODES ..."""

from __future__ import annotations

import sys

import h5py
import numpy as np
from sklearn.linear_model import LogisticRegression

import petabatch

labels = np.load("runs/digits_labels.npy")
TRAINED = 1200
"""Digits the classifier learns from; it is tested on the others, which other people wrote."""


def codes(path: str) -> np.ndarray:
    """Return the code of each digit, `[digit, unit]`, from a run or a file of codes."""
    if path.endswith(".h5"):
        with h5py.File(path) as file:
            return file["activity"][()].reshape(len(labels), -1)
    with petabatch.open(path) as run:
        shown = run["layers/V1/A"][...]  # [display, slice, y, x, feature]
    return shown.reshape(-1, shown[0, 0].size)[: len(labels)]  # display p shows digits 8 p to 8 p + 7


for path in sys.argv[1:]:
    found = codes(path)
    model = LogisticRegression(max_iter=2000).fit(found[:TRAINED], labels[:TRAINED])
    score = model.score(found[TRAINED:], labels[TRAINED:])
    print(f"{path:24} accuracy {score:.2f}, {np.mean(found != 0):.1%} of the units active")
