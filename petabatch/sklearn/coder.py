"""Codes of samples with a dictionary that is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.sklearn.base import Coder, atoms
from petabatch.sklearn.dispatch import returned, taken
from petabatch.sklearn.images import CutOut


class SparseCoder(Coder):
    """Codes A of samples X that minimise 0.5 |X - A dictionary|^2 + penalty |A|_1.

    Samples are vectors, whose codes are exact up to rounding; or, with `patch`, images, whose codes are those
    of `petabatch.encode`, with patches that may overlap.

    Parameters
    ----------
    dictionary
        Atoms `[n_components, n_features]`, used as they are; or a run, or the path of one or of a `.npy` or
        `.mat` file, as for `petabatch.encode`, whose patches are flattened for vectors. Those of images are
        patches `[n_components, rows, columns]`, or `[n_components, rows, columns, channels]`. Images are
        coded as they are, not transformed as those of a run. By default the samples of `fit` or their
        patches, each divided by its length (sparse representations by examples, as for classification by
        Wright et al., 2009).
    penalty
        The sparsity penalty.
    patch, stride
        Rows and columns of patches, or one number for both, where samples are images `[n_samples, rows,
        columns]` or `[n_samples, rows, columns, channels]`; and the pixels from one patch to the next, by
        default the side of a patch, so that patches do not overlap.
    signed
        Whether codes may be negative.
    gap, steps
        Largest relative duality gap where the path of solutions is led astray by rounding or by atoms that
        depend on each other, or of FISTA, for images, and above 8192 atoms; and largest number of steps.
    output
        "dense" for arrays, "sparse" for sparse arrays of scipy.
    n_jobs
        Number of threads: 1 by default, -1 for all cores.

    Attributes
    ----------
    components_
        The atoms `[n_components, n_features]`, or `[n_components, rows, columns]`, with channels as images.
    image_shape_, code_shape_
        Shape of an image, and of the code of a sample: `(rows, columns, n_components)` of an image.

    Examples
    --------
    >>> from petabatch.sklearn import SparseCoder
    >>> SparseCoder(np.eye(3), penalty=0.5).fit_transform([[2.0, 0.2, -1.0]])
    array([[ 1.5,  0. , -0.5]])
    """

    def __init__(
        self,
        dictionary: Any = None,
        penalty: float = 1.0,
        *,
        patch: Any = None,
        stride: int | None = None,
        signed: bool = True,
        gap: float = 1e-4,
        steps: int = 1000,
        output: str = "dense",
        n_jobs: int | None = None,
    ) -> None:
        self.dictionary = dictionary
        self.penalty = penalty
        self.patch = patch
        self.stride = stride
        self.signed = signed
        self.gap = gap
        self.steps = steps
        self.output = output
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> SparseCoder:
        """Take the dictionary, or the samples or their patches as one."""
        samples = self._samples(X, first=True)
        grid = self._grid
        shape = samples.shape[1:] if grid is None else grid.atom
        if self.dictionary is None:
            found = samples if grid is None else CutOut(samples, grid)[:]
            length = np.linalg.norm(found, axis=1, keepdims=True)
            found = (found / np.where(length > 0, length, 1)).reshape(-1, *shape)
        else:
            found = atoms(taken(self.dictionary), shape)
        self.components_ = returned(X)(found)
        return self
