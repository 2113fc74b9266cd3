"""What estimators with a dictionary have in common: codes of samples, and samples of codes."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from petabatch.arguments import choice, positive, whole_number
from petabatch.arguments import path as given_path
from petabatch.arrays import as_numpy
from petabatch.coding import dictionary, encode
from petabatch.errors import ArgumentError, Described
from petabatch.lasso import Lasso, fits
from petabatch.results import Results
from petabatch.sklearn import file
from petabatch.sklearn.dispatch import require_same, returned, taken
from petabatch.sklearn.images import FLOATS, Grid, images


def atoms(given: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return a dictionary `[n_components, *shape]`, or that of a run or file, as a new array of floats.

    Atoms may be given as vectors whatever their shape is, and with one channel more. Raises ArgumentError.
    """
    if isinstance(given, str | os.PathLike | Results):
        given = dictionary.read(given, None, None, None).weights
        given = given if len(shape) > 1 else given.reshape(len(given), -1)
    found = np.asarray(given)
    length = int(np.prod(shape))
    alike = found.shape[1:] in (shape, (*shape, 1), (length,))
    if found.ndim < 2 or not alike or found.dtype.kind not in "fiub":
        what = Described(f"{found.dtype} {list(found.shape)}")
        expected = f"an array [n_components, {', '.join(map(str, shape))}]"
        raise ArgumentError("dictionary", "it does not fit the samples", what, expected)
    made = np.array(found, found.dtype if found.dtype in FLOATS else float, order="C")
    return made.reshape(len(made), *shape)


class Coder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Samples coded with `components_` by the LASSO, each on its own."""

    dictionary: Any
    penalty: float
    patch: Any
    stride: int | None
    signed: bool
    gap: float
    steps: int
    output: str
    n_jobs: int | None
    components_: Any

    def transform(self, X: Any) -> Any:
        """Return the codes of samples `[n_samples, n_components]`, of their type.

        Those of images are `[n_samples, rows * columns * n_components]`, in this order, with the rows and
        columns of `code_shape_`. A sparse array of scipy with `output="sparse"`. Each code is that of its
        sample, whatever others there are.
        """
        check_is_fitted(self)
        choice("output", self.output, ("dense", "sparse"))
        self._require_same(X, "transform")
        code = self._coded(self._samples(X))
        return csr_array(code) if self.output == "sparse" else returned(X)(code)

    def inverse_transform(self, X: Any) -> Any:
        """Return the samples that codes, dense or sparse, stand for: vectors, or images as those of `fit`."""
        check_is_fitted(self)
        self._require_same(X, "inverse_transform")
        code = check_array(taken(X), dtype=FLOATS, accept_sparse="csr", ensure_min_samples=0)
        components = self._components.astype(code.dtype, copy=False)
        if (grid := self._grid) is None:
            return returned(X)(code @ components)
        if code.shape[1] != self._n_features_out:
            found, expected = Described(str(list(code.shape))), f"[n_samples, {self._n_features_out}]"
            raise ArgumentError("X", "these are not codes of such images", found, expected)
        return returned(X)(grid.shown(code.toarray() if issparse(code) else code, components))

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean of 0.5 |sample - code components_|^2 + penalty |code|_1: more is better."""
        check_is_fitted(self)
        self._require_same(X, "score")
        samples, components = self._samples(X), self._components
        code = self._coded(samples).astype(float)
        shown = code @ components if self._grid is None else self._grid.shown(code, components)
        squares = np.square(samples - shown).reshape(len(code), -1).sum(axis=1)
        return -float(np.mean(0.5 * squares + self.penalty * np.abs(code).sum(axis=1)))

    def save(self, path: str | os.PathLike[str], force: bool = False) -> None:
        """Write the fitted estimator to a new HDF5 file, which `open` reads.

        Its dictionary is what `petabatch.encode`, `SparseCoder` and the initialiser `file` of a network read
        too. `force` replaces the file of another estimator. Raises StorageError.
        """
        check_is_fitted(self)
        patches = self._components[:, None, None]  # vectors have one pixel with many channels
        if (grid := self._grid) is not None:
            patches = grid.stacked(self._components)
        usage = {
            "threshold": float(self.penalty),
            "stride": 1 if grid is None else grid.stride,
            "signed": int(self.signed),
        }
        parameters = {name: value for name, value in self.get_params().items() if name != "dictionary"}
        file.write(path, force, patches, usage, file.Saved(file.text_of(parameters), *self._state()))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Return a fitted estimator of a file that `save` has written, or of a run: of its newest dictionary.

        Penalty, patch, stride and sign are those of the run; images are not transformed as in the run. The
        `dictionary` of the estimator is the path. Raises InputError.
        """
        name = str(given_path("path", path).absolute())
        if os.path.isdir(name) or dictionary.kind_of(name) == "run":
            return cls._of_run(name)
        saved = file.read(name)
        known = inspect.signature(cls).parameters
        made = cls(**{key: value for key, value in saved.parameters.items() if key in known})
        made.dictionary = name
        made._restore(saved.fitted, saved.arrays)
        return made

    @classmethod
    def _of_run(cls, path: str) -> Self:
        found = dictionary.read(path, None, None, None)
        if found.factor != 1:
            what = "images are multiplied in this run, which an estimator does not do"
            raise ArgumentError("path", what, found.factor, "strength = 1 of the images")
        weights = found.weights if found.layer[2] > 1 else found.weights[..., 0]
        made = cls(dictionary=path, penalty=found.threshold, patch=weights.shape[1:3], stride=found.stride)
        made.signed = bool(found.signed)
        shape = found.layer if found.layer[2] > 1 else found.layer[:2]
        made._restore({"image_shape_": shape}, {"components_": weights})
        return made

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return what has been fitted: numbers and names, and arrays."""
        names = ("n_features_in_", "image_shape_", "feature_names_in_")
        found = {name: getattr(self, name) for name in names if hasattr(self, name)}
        if "feature_names_in_" in found:
            found["feature_names_in_"] = list(found["feature_names_in_"])
        return found, {"components_": self._components}

    def _restore(self, fitted: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Set what `_state` has returned."""
        made: dict[str, Callable[[Any], Any]] = {
            "image_shape_": tuple,
            "feature_names_in_": lambda names: np.array(names, dtype=object),
        }
        for name, value in {**fitted, **arrays}.items():
            setattr(self, name, made.get(name, lambda value: value)(value))

    @property
    def _components(self) -> np.ndarray:
        """`components_`, of whatever library, as an array of numpy."""
        return as_numpy("components_", self.components_)

    def _require_same(self, X: Any, method: str) -> None:
        require_same(X, self.components_, f"{type(self).__name__}.{method}")

    @property
    def code_shape_(self) -> tuple[int, ...]:
        """Shape of the code of a sample: components, after rows and columns of an image."""
        grid = self._grid
        return (*(() if grid is None else grid.positions), self.components_.shape[0])

    @property
    def _grid(self) -> Grid | None:
        """Where the patches of images are; None for vectors."""
        return None if self.patch is None else Grid.of(self.image_shape_, self.patch, self.stride)

    def _samples(self, X: Any, first: bool = False) -> np.ndarray:
        """Return samples as an array of floats; the `first` ones say how others must be."""
        X = taken(X)
        if self.patch is None:
            if self.stride is not None:
                hint = "`patch` says that samples are images"
                raise ArgumentError("stride", "samples that are vectors have none", self.stride, hint=hint)
            return validate_data(self, X, dtype=FLOATS, order="C", reset=first)  # type: ignore[no-any-return]
        found = images(X)
        if first:
            self.image_shape_ = found.shape[1:]
        elif found.shape[1:] != self.image_shape_:
            what, expected = Described(str(list(found.shape[1:]))), str(list(self.image_shape_))
            raise ArgumentError("X", "these images are not as those of `fit`", what, expected)
        return found

    def _coded(self, samples: np.ndarray) -> np.ndarray:
        """Return the codes of samples as `transform` does, dense."""
        if (grid := self._grid) is None:
            return self._solved(samples, self._components)
        shown, patches = grid.stacked(samples), grid.stacked(self._components)
        return self._encoded(shown, patches, grid.stride).reshape(len(samples), -1)

    def _solved(self, samples: np.ndarray, components: np.ndarray) -> np.ndarray:
        """Return the codes of vectors, of their type."""
        vectors = components.reshape(len(components), -1)
        if not fits(len(vectors)):  # products of all pairs of atoms would not fit into memory
            code = self._encoded(samples[:, None, None], vectors[:, None, None], 1)
            return code.reshape(len(samples), -1)
        lasso = Lasso(
            vectors.astype(samples.dtype, copy=False),
            self.penalty,
            signed=self.signed,
            gap=positive("gap", self.gap),
            steps=self.steps,
        )
        return np.asarray(lasso.solve(samples, self._threads()).code)

    def _encoded(self, shown: np.ndarray, patches: np.ndarray, stride: int) -> np.ndarray:
        """Return the codes of images by `petabatch.encode`, of the type of the images."""
        codes = encode(
            shown, patches, self.penalty, stride=stride, gap=self.gap, steps=self.steps,
            signed=self.signed, threads=self._threads(), quiet=True,
        )  # fmt: skip
        return np.asarray(codes, shown.dtype)

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
        return int(np.prod(self.code_shape_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.two_d_array = self.patch is None
        tags.input_tags.three_d_array = self.patch is not None
        return tags
