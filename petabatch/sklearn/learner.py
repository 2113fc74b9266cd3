"""A dictionary learned from samples, and their codes with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from petabatch.arguments import whole_number
from petabatch.errors import ArgumentError
from petabatch.learning.statistics import FORGETTING, Statistics, normalized
from petabatch.sklearn.base import Coder, atoms
from petabatch.sklearn.dispatch import returned, taken
from petabatch.sklearn.images import CutOut


class _Learned(NamedTuple):
    """What learning goes on from."""

    atoms: np.ndarray
    """float64 `[n_components, features]`."""
    sums: Statistics


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
        return self._finish(X, vectors.dtype)

    def partial_fit(self, X: Any, y: Any = None) -> DictionaryLearner:
        """Learn on from further samples, once each, in order."""
        begun = hasattr(self, "components_")
        vectors = self._vectors(self._samples(X, first=not begun))
        if begun:
            self._require_same(X, "partial_fit")
        else:
            self._begin(vectors, check_random_state(self.random_state))
        kind = self._components.dtype if begun else vectors.dtype
        size = whole_number("batch_size", self.batch_size, 1)
        for first in range(0, len(vectors), size):
            numbers = np.arange(first, min(first + size, len(vectors)))
            self._learn(vectors[numbers].astype(kind, copy=False))
        return self._finish(X, kind)

    def _finish(self, X: Any, kind: Any) -> DictionaryLearner:
        """Set the atoms that have been learned, of the type and library of the samples."""
        grid = self._grid
        shape = (-1,) if grid is None else grid.atom
        found = self._learned.atoms.astype(kind)
        self.components_ = returned(X)(found.reshape(len(found), *shape))
        return self

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        fitted, arrays = super()._state()
        atoms, sums = self._learned
        own = {"atoms": atoms, "products": sums.products, "images": sums.images}
        return {**fitted, "n_seen_": self.n_seen_}, {**arrays, **own}

    def _restore(self, fitted: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        components = arrays["components_"]
        super()._restore({"n_seen_": 0, **fitted}, {"components_": components})
        # Of a run, or of a coder, there are no statistics.
        atoms = arrays.get("atoms", components.reshape(len(components), -1).astype(float))
        none = Statistics.none(*atoms.shape)
        sums = Statistics(arrays.get("products", none.products), arrays.get("images", none.images))
        self._learned = _Learned(atoms, sums)

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
            begin = atoms(taken(self.dictionary), shape).astype(float).reshape(-1, features)
            if count not in (None, len(begin)):
                raise ArgumentError("n_components", "the dictionary has others", count, str(len(begin)))
        else:
            count = features if count is None else count
            begin = vectors[rng.permutation(len(vectors))[:count]].astype(float)
            more = rng.standard_normal((count - len(begin), features))  # fewer samples than atoms
            begin = np.concatenate([begin, more])
        begin = normalized(begin if self.negative_atoms else np.abs(begin))
        self._learned, self.n_seen_ = _Learned(begin, Statistics.none(*begin.shape)), 0

    def _learn(self, samples: np.ndarray) -> None:
        """Code a batch of vectors, take its statistics in, and move the atoms."""
        before, sums = self._learned
        components = before.astype(samples.dtype)
        code = self._solved(samples, components)
        self.n_seen_ += len(samples)
        kept = (1 - len(samples) / self.n_seen_) ** FORGETTING
        sums = sums.with_items(code, samples, kept)
        moved = sums.fitted(before, negative=self.negative_atoms)
        if len(sums.unused):
            residuals = np.square(samples - code @ components).sum(axis=1)
            moved, sums = sums.refreshed(moved, samples, residuals, negative=self.negative_atoms)
        self._learned = _Learned(moved, sums)
