"""Write scikit-learn's digits, 1797 grey images of 8 x 8 pixels, to runs/: python demos/digits/data.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
Path("runs").mkdir(exist_ok=True)
np.save("runs/digits_images.npy", (digits.images / 16).astype(np.float32))
np.save("runs/digits_labels.npy", digits.target)
