"""What estimators with a dictionary have in common: codes of samples, and samples of codes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from petabatch.arguments import choice, positive, whole_number
from petabatch.errors import ArgumentError, Described
from petabatch.lasso import Lasso, Solution

FLOATS = [np.float64, np.float32]
"""Types of samples that are used as they are; all others become the first."""


def atoms(given: Any, features: int) -> np.ndarray:
    """Return a dictionary `[n_components, features]` as a new array of floats; raises ArgumentError."""
    found = np.asarray(given)
    if found.ndim != 2 or found.shape[1] != features or found.dtype.kind not in "fiub":
        shape = Described(f"{found.dtype} {list(found.shape)}")
        raise ArgumentError(
            "dictionary", "it does not fit the samples", shape, f"an array [n_components, {features}]"
        )
    return np.array(found, found.dtype if found.dtype in FLOATS else float, order="C")


class Coder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Samples coded with `components_` by the LASSO, each on its own."""

    penalty: float
    signed: bool
    gap: float
    steps: int
    output: str
    n_jobs: int | None
    components_: Any

    def transform(self, X: Any) -> Any:
        """Return the codes of samples `[n_samples, n_components]`, of their type.

        A sparse array of scipy with `output="sparse"`. Each code is that of its sample, whatever others there
        are.
        """
        check_is_fitted(self)
        choice("output", self.output, ("dense", "sparse"))
        samples = validate_data(self, X, dtype=FLOATS, order="C", reset=False)
        code = self._solved(samples, self.components_).code
        return csr_array(code) if self.output == "sparse" else code

    def inverse_transform(self, X: Any) -> Any:
        """Return the samples `[n_samples, n_features]` that codes, dense or sparse, stand for."""
        check_is_fitted(self)
        code = check_array(X, dtype=FLOATS, accept_sparse="csr", ensure_min_samples=0)
        return code @ self.components_.astype(code.dtype, copy=False)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean of 0.5 |sample - code components_|^2 + penalty |code|_1: more is better."""
        check_is_fitted(self)
        samples = validate_data(self, X, dtype=FLOATS, order="C", reset=False)
        code = self._solved(samples, self.components_).code.astype(float)
        squares = np.square(samples - code @ self.components_).sum(axis=1)
        return -float(np.mean(0.5 * squares + self.penalty * np.abs(code).sum(axis=1)))

    def _solved(self, samples: np.ndarray, components: np.ndarray) -> Solution:
        """Return the codes of samples, of their type."""
        dictionary = components.astype(samples.dtype, copy=False)
        lasso = Lasso(
            dictionary,
            self.penalty,
            signed=self.signed,
            gap=positive("gap", self.gap),
            steps=self.steps,
        )
        return lasso.solve(samples, self._threads())

    def _threads(self) -> int:
        """Return the number of threads, as scikit-learn counts jobs: 1 by default, all cores for -1."""
        cores = len(os.sched_getaffinity(0))
        jobs = 1 if self.n_jobs is None else whole_number("n_jobs", self.n_jobs)
        if jobs == 0:
            raise ArgumentError(
                "n_jobs", "the value is out of range", jobs, "a number of threads, or -1 for all"
            )
        return max(1, cores + 1 + jobs) if jobs < 0 else jobs

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
