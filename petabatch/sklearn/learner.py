"""A dictionary learned from samples, and their codes with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from petabatch.arguments import whole_number
from petabatch.errors import ArgumentError
from petabatch.learning.statistics import FORGETTING, Statistics, normalized
from petabatch.sklearn.base import Coder, atoms
from petabatch.sklearn.images import CutOut


class DictionaryLearner(Coder):
    """A dictionary learned from samples X: minimises the mean of 0.5 |X - A D|^2 + penalty |A|_1 over both.

    Atoms are at most of length 1. Each batch of samples is coded exactly, and each atom is then moved to its
    minimum given the statistics of the codes so far (Mairal et al., 2010). There is no rate to choose. Atoms
    that nothing uses are replaced by samples that are described worst.

    With `patch`, samples are images: atoms are learned from the patches within them, each on its own, at
    every `stride` pixels. Images are then coded as by `petabatch.encode`. Where patches overlap, atoms that
    are learned with such codes, by a network, describe images better.

    Parameters
    ----------
    n_components
        Number of atoms, by default that of `dictionary`, or of the features of a sample or patch.
    penalty
        The sparsity penalty.
    patch, stride
        As in `SparseCoder`.
    epochs, batch_size
        How often `fit` goes over all samples or patches, in random order, and how many of them are coded
        between two updates of the atoms.
    signed, negative_atoms
        Whether codes, and numbers of atoms, may be negative.
    gap, steps, output, n_jobs
        As in `SparseCoder`.
    dictionary
        Atoms to begin with, as `components_`, or those of a run or file as in `SparseCoder`; by default
        samples or patches chosen at random.
    random_state
        Seed, generator, or None for other choices each time.

    Attributes
    ----------
    components_
        The atoms `[n_components, n_features]`, or `[n_components, rows, columns]`, with channels as images.
    image_shape_, code_shape_
        As in `SparseCoder`.
    n_seen_
        Number of samples or patches learned from, counted as often as they were.
    """

    def __init__(
        self,
        n_components: int | None = None,
        penalty: float = 1.0,
        *,
        patch: Any = None,
        stride: int | None = None,
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
        self.patch = patch
        self.stride = stride
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
        """Learn a dictionary from samples, from the start."""
        vectors = self._vectors(self._samples(X, first=True))
        rng = check_random_state(self.random_state)
        self._begin(vectors, rng)
        size = whole_number("batch_size", self.batch_size, 1)
        for _ in range(whole_number("epochs", self.epochs, 1)):
            order = rng.permutation(len(vectors))
            for first in range(0, len(vectors), size):
                self._learn(vectors[order[first : first + size]])
        return self

    def partial_fit(self, X: Any, y: Any = None) -> DictionaryLearner:
        """Learn on from further samples, once each, in order."""
        begun = hasattr(self, "components_")
        vectors = self._vectors(self._samples(X, first=not begun))
        if not begun:
            self._begin(vectors, check_random_state(self.random_state))
        size, kind = whole_number("batch_size", self.batch_size, 1), self.components_.dtype
        for first in range(0, len(vectors), size):
            numbers = np.arange(first, min(first + size, len(vectors)))
            self._learn(vectors[numbers].astype(kind, copy=False))
        return self

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        fitted, arrays = super()._state()
        statistics = {"products": self._statistics.products, "images": self._statistics.images}
        return {**fitted, "n_seen_": self.n_seen_}, {**arrays, "atoms": self._atoms, **statistics}

    def _restore(self, fitted: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        components = arrays["components_"]
        super()._restore({"n_seen_": 0, **fitted}, {"components_": components})
        # Of a run, or of a coder, there are no statistics.
        self._atoms = arrays.get("atoms", components.reshape(len(components), -1).astype(float))
        none = Statistics.none(*self._atoms.shape)
        self._statistics = Statistics(
            arrays.get("products", none.products), arrays.get("images", none.images)
        )

    def _vectors(self, samples: np.ndarray) -> np.ndarray | CutOut:
        """Return what atoms are learned from: samples, or patches of images."""
        return samples if (grid := self._grid) is None else CutOut(samples, grid)

    def _begin(self, vectors: np.ndarray | CutOut, rng: np.random.RandomState) -> None:
        """Set the atoms to begin with, and no statistics."""
        features, count, grid = vectors.shape[1], self.n_components, self._grid
        shape = (features,) if grid is None else grid.atom
        if count is not None:
            count = whole_number("n_components", count, 1)
        if self.dictionary is not None:
            begin = atoms(self.dictionary, shape).astype(float).reshape(-1, features)
            if count not in (None, len(begin)):
                raise ArgumentError("n_components", "the dictionary has others", count, str(len(begin)))
        else:
            count = features if count is None else count
            begin = vectors[rng.permutation(len(vectors))[:count]].astype(float)
            more = rng.standard_normal((count - len(begin), features))  # fewer samples than atoms
            begin = np.concatenate([begin, more])
        self._atoms = normalized(begin if self.negative_atoms else np.abs(begin))
        self._statistics, self.n_seen_ = Statistics.none(*self._atoms.shape), 0
        self.components_ = self._atoms.astype(vectors.dtype).reshape(-1, *shape)

    def _learn(self, samples: np.ndarray) -> None:
        """Code a batch of vectors, take its statistics in, and move the atoms."""
        components = self.components_.reshape(self._atoms.shape)
        code = self._solved(samples, components)
        self.n_seen_ += len(samples)
        kept = (1 - len(samples) / self.n_seen_) ** FORGETTING
        statistics = self._statistics.with_items(code, samples, kept)
        moved = statistics.fitted(self._atoms, negative=self.negative_atoms)
        if len(statistics.unused):
            residuals = np.square(samples - code @ components).sum(axis=1)
            moved, statistics = statistics.refreshed(moved, samples, residuals, negative=self.negative_atoms)
        self._atoms, self._statistics = moved, statistics
        self.components_ = moved.astype(components.dtype).reshape(self.components_.shape)
