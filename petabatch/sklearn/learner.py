"""A dictionary learned from samples, and their codes with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from petabatch.arguments import whole_number
from petabatch.errors import ArgumentError
from petabatch.lasso.online import Statistics
from petabatch.sklearn.base import FLOATS, Coder, atoms

_FORGETTING = 4.0
"""Power of (1 - batch / samples so far), the factor on older statistics. Of 0, 1, 2, 3, 4 and 6, that with
the least objective after one epoch of 20,000 patches of photographs, 256 atoms; after ten, 6 is 0.1 % better.
"""


class DictionaryLearner(Coder):
    """A dictionary learned from samples X: minimises the mean of 0.5 |X - A D|^2 + penalty |A|_1 over both.

    Atoms are at most of length 1. Each batch of samples is coded exactly, and each atom is then moved to its
    minimum given the statistics of the codes so far (Mairal et al., 2010). There is no rate to choose. Atoms
    that nothing uses are replaced by samples that are described worst.

    Parameters
    ----------
    n_components
        Number of atoms, by default that of `dictionary`, or of the features.
    penalty
        The sparsity penalty.
    epochs, batch_size
        How often `fit` goes over all samples, in random order, and samples between two updates of the atoms.
    signed, negative_atoms
        Whether codes, and numbers of atoms, may be negative.
    gap, steps, output, n_jobs
        As in `SparseCoder`.
    dictionary
        Atoms to begin with `[n_components, n_features]`, by default samples chosen at random.
    random_state
        Seed, generator, or None for other choices each time.

    Attributes
    ----------
    components_
        The atoms `[n_components, n_features]`.
    n_seen_
        Number of samples learned from, counted as often as they were.
    """

    def __init__(
        self,
        n_components: int | None = None,
        penalty: float = 1.0,
        *,
        epochs: int = 10,
        batch_size: int = 256,
        signed: bool = True,
        negative_atoms: bool = True,
        gap: float = 1e-4,
        steps: int = 1000,
        output: str = "dense",
        n_jobs: int | None = None,
        dictionary: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.penalty = penalty
        self.epochs = epochs
        self.batch_size = batch_size
        self.signed = signed
        self.negative_atoms = negative_atoms
        self.gap = gap
        self.steps = steps
        self.output = output
        self.n_jobs = n_jobs
        self.dictionary = dictionary
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> DictionaryLearner:
        """Learn a dictionary from samples `[n_samples, n_features]`, from the start."""
        samples = validate_data(self, X, dtype=FLOATS, order="C")
        rng = check_random_state(self.random_state)
        self._begin(samples, rng)
        size = whole_number("batch_size", self.batch_size, 1)
        for _ in range(whole_number("epochs", self.epochs, 1)):
            order = rng.permutation(len(samples))
            for first in range(0, len(samples), size):
                self._learn(samples[order[first : first + size]])
        return self

    def partial_fit(self, X: Any, y: Any = None) -> DictionaryLearner:
        """Learn on from further samples `[n_samples, n_features]`, once each, in order."""
        begun = hasattr(self, "components_")
        samples = validate_data(self, X, dtype=FLOATS, order="C", reset=not begun)
        if not begun:
            self._begin(samples, check_random_state(self.random_state))
        samples, size = samples.astype(self.components_.dtype), whole_number("batch_size", self.batch_size, 1)
        for first in range(0, len(samples), size):
            self._learn(samples[first : first + size])
        return self

    def _begin(self, samples: np.ndarray, rng: np.random.RandomState) -> None:
        """Set the atoms to begin with, and no statistics."""
        features, count = samples.shape[1], self.n_components
        if count is not None:
            count = whole_number("n_components", count, 1)
        if self.dictionary is not None:
            begin = atoms(self.dictionary, features).astype(float)
            if count not in (None, len(begin)):
                raise ArgumentError("n_components", "the dictionary has others", count, str(len(begin)))
        else:
            count = features if count is None else count
            begin = samples[rng.permutation(len(samples))[:count]].astype(float)
            more = rng.standard_normal((count - len(begin), features))  # fewer samples than atoms
            begin = np.concatenate([begin, more])
        self._atoms = _normalized(begin if self.negative_atoms else np.abs(begin))
        self._statistics, self.n_seen_ = Statistics.none(*self._atoms.shape), 0
        self.components_ = self._atoms.astype(samples.dtype)

    def _learn(self, samples: np.ndarray) -> None:
        """Code a batch, take its statistics in, and move the atoms."""
        code = self._solved(samples, self.components_).code
        self.n_seen_ += len(samples)
        kept = (1 - len(samples) / self.n_seen_) ** _FORGETTING
        statistics = self._statistics.with_items(code, samples, kept)
        moved = statistics.fitted(self._atoms, negative=self.negative_atoms)
        if len(unused := statistics.unused):
            residual = np.square(samples - code @ self.components_).sum(axis=1)
            worst = np.argsort(-residual, kind="stable")[: len(unused)]
            unused = unused[: len(worst)]
            found = samples[worst].astype(float)
            moved[unused] = _normalized(found if self.negative_atoms else np.abs(found))
            statistics = statistics.without(unused)
        self._atoms, self._statistics = moved, statistics
        self.components_ = moved.astype(self.components_.dtype)


def _normalized(atoms: np.ndarray) -> np.ndarray:
    """Return atoms of length 1, but for those that are zero."""
    length = np.linalg.norm(atoms, axis=1, keepdims=True)
    return atoms / np.where(length > 0, length, 1)
