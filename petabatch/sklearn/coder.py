"""Codes of samples with a dictionary that is given."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from petabatch.coding.dictionary import read
from petabatch.results import Results
from petabatch.sklearn.base import FLOATS, Coder, atoms


class SparseCoder(Coder):
    """Codes A of samples X that minimise 0.5 |X - A dictionary|^2 + penalty |A|_1, exact up to rounding.

    Parameters
    ----------
    dictionary
        Atoms `[n_components, n_features]`, used as they are; or a run, or the path of one or of a `.npy` or
        `.mat` file, as for `petabatch.encode`, whose patches are flattened. By default the samples of `fit`,
        each divided by its length (sparse representations by examples, as for classification by Wright et
        al., 2009).
    penalty
        The sparsity penalty.
    signed
        Whether codes may be negative.
    gap, steps
        Largest relative duality gap where the path of solutions is led astray by rounding or by atoms that
        depend on each other, and largest number of steps.
    output
        "dense" for arrays, "sparse" for sparse arrays of scipy.
    n_jobs
        Number of threads: 1 by default, -1 for all cores.

    Attributes
    ----------
    components_
        The atoms `[n_components, n_features]`.

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
        signed: bool = True,
        gap: float = 1e-4,
        steps: int = 1000,
        output: str = "dense",
        n_jobs: int | None = None,
    ) -> None:
        self.dictionary = dictionary
        self.penalty = penalty
        self.signed = signed
        self.gap = gap
        self.steps = steps
        self.output = output
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> SparseCoder:
        """Take the dictionary, or the samples `[n_samples, n_features]` as one."""
        samples = validate_data(self, X, dtype=FLOATS, order="C")
        if self.dictionary is None:
            length = np.linalg.norm(samples, axis=1, keepdims=True)
            self.components_ = samples / np.where(length > 0, length, 1)
            return self
        stored = isinstance(self.dictionary, str | os.PathLike | Results)
        weights = read(self.dictionary, None, None, None).weights if stored else None
        given = self.dictionary if weights is None else weights.reshape(len(weights), -1)
        self.components_ = atoms(given, samples.shape[1])
        return self
