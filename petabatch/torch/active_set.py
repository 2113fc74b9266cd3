"""The active set of the code of an image: its exact code, and derivatives of that.

With the atoms D of active units in their places, their signs s, an image x and the penalty p, the code is

    a = G^-1 (D^T x - p s)      G = D^T D

With the gradient g of a loss by a, w = G^-1 g, u = D w and the residual r = x - D a, the loss has the
gradients u by x, -s w by p, and w r^T - a u^T by the atoms (Mairal, Bach and Ponce, 2012, "Task-driven
dictionary learning"). G is factored, up to `_FACTORED` atoms, else solved by conjugate gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from petabatch.errors import PetabatchError
from petabatch.geometry import Axis
from petabatch.kernels.cpu.placed import add_placed, correlate_placed, gram_placed, solve_factored

_TOLERANCE = 1e-11
"""Relative residual at which conjugate gradients end."""
_SINGULAR = 1e-10
"""Curvature along a direction, relative to the largest one met, that is none."""
_FACTORED = 1024
"""Atoms whose Gram matrix is factored, at most: 8 MiB, which are kept until the gradients are asked for."""
_DEPENDENT = 1e-10
"""Squared distance of an atom from those before it, relative to its square, that is none."""
_TOGETHER = 10
"""Changes of the active set in which all atoms enter that are missing; after these one at a time."""
_ROUNDS = 100
"""Changes of the active set until the code is exact, at most."""
_SLACK = 1e-9
"""Part of the penalty by which optimality may be violated."""


class SingularError(PetabatchError):
    """The atoms of an active set depend on each other: its code has no derivative."""


@dataclass(frozen=True)
class Places:
    """Where patches `[features, rows, columns, channels]` are in an image `[ny, nx, channels]`."""

    shape: tuple[int, int, int]
    """Of the image."""
    patch: tuple[int, int, int]
    stride: int

    @property
    def units(self) -> tuple[int, int]:
        """Rows and columns of positions."""
        return self.shape[0] // self.stride, self.shape[1] // self.stride

    @property
    def margin(self) -> tuple[int, int]:
        """Rows and columns around an image that patches may reach."""
        return self.patch[0], self.patch[1]

    @property
    def _first(self) -> tuple[int, int]:
        """Row and column of the first patch in the image with its margin."""
        ends = zip(self.units, self.shape, self.patch, strict=False)  # but for channels
        y, x = (size + Axis(coarse, fine, self.stride, size).start(0) for coarse, fine, size in ends)
        return y, x

    def padded(self, image: np.ndarray) -> np.ndarray:
        """Return an image with a margin of zeros."""
        return np.pad(image, (*((size, size) for size in self.margin), (0, 0)))

    def inner(self, padded: np.ndarray) -> np.ndarray:
        """Return the image without its margin."""
        (rows, columns), (ny, nx, _) = self.margin, self.shape
        return padded[rows : rows + ny, columns : columns + nx]

    def windows(self, padded: np.ndarray) -> np.ndarray:
        """Return what patches cover at each position, `[*units, rows, columns, channels]`."""
        (y, x), (rows, columns, _), (units_y, units_x) = self._first, self.patch, self.units
        found = sliding_window_view(padded, (rows, columns), (0, 1))[y :: self.stride, x :: self.stride]
        return np.moveaxis(found[:units_y, :units_x], 2, -1)

    @cached_property
    def starts(self) -> np.ndarray:
        """Where in a flat image with its margin the patch of each position begins."""
        (y, x), (units_y, units_x), channels = self._first, self.units, self.shape[2]
        width = self.shape[1] + 2 * self.margin[1]
        rows, columns = y + self.stride * np.arange(units_y), x + self.stride * np.arange(units_x)
        return ((rows[:, None] * width + columns) * channels).reshape(-1)

    def corners(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first row and column of patches in an image with its margin."""
        (y, x), (_, across) = self._first, self.units
        return y + self.stride * (positions // across), x + self.stride * (positions % across)

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """First row of an image within its margin and that after the last, and the same of columns."""
        (rows, columns), (ny, nx, _) = self.margin, self.shape
        return rows, rows + ny, columns, columns + nx

    def pixels(self, positions: np.ndarray) -> np.ndarray:
        """Return where pixels of patches are in a flat image with its margin, `[n, pixels of a patch]`."""
        rows, columns, channels = self.patch
        width = self.shape[1] + 2 * self.margin[1]
        own = np.arange(rows)[:, None] * width * channels + np.arange(columns * channels)
        found: np.ndarray = self.starts[positions][:, None] + own.reshape(-1)
        return found


class ActiveSet:
    """The active units of an image."""

    def __init__(self, image: np.ndarray, dictionary: np.ndarray, places: Places, penalty: float) -> None:
        """Take an image `[ny, nx, channels]` and atoms `[features, rows, columns, channels]`, float64."""
        self._places, self._penalty = places, penalty
        self._atoms = np.require(dictionary.reshape(len(dictionary), -1), float, ["C", "W"])
        self._image = places.padded(image)
        self._inside = places.padded(np.ones(image.shape))
        self._row, self._pitch = places.patch[1] * places.patch[2], self._image[0].size
        self.at, self.feature, self.sign = (np.empty(0, int) for _ in range(3))
        self.code = np.empty(0)

    def find(self, start: np.ndarray, signed: bool) -> None:
        """Find the active set from a nearby code `[positions, features]`, and its exact code.

        Raises SingularError if it is singular, PetabatchError if it is not found.
        """
        self._take(start)
        for changes in range(_ROUNDS):
            target = self._analyse(self._image) - self._penalty * self.sign
            self.code = self._solved(target, start[self.at, self.feature])
            slopes = self._places.windows(self.residual).reshape(-1, self._atoms.shape[1]) @ self._atoms.T
            excess = (np.abs(slopes) if signed else slopes) - self._penalty * (1 + _SLACK)
            excess[self.at, self.feature] = -np.inf
            wrong = self.code * self.sign < 0
            if not wrong.any() and not (excess > 0).any():
                return
            start = np.zeros_like(start)
            start[self.at[~wrong], self.feature[~wrong]] = self.code[~wrong]
            if not wrong.any():
                missing = excess > 0
                if changes >= _TOGETHER:
                    missing = excess == excess.max()
                start[missing] = np.copysign(np.finfo(float).tiny, slopes[missing])
            self._take(start)
        raise PetabatchError(
            f"the active set of a code was not found in {_ROUNDS} changes\n"
            "    hint:     code to a smaller gap"
        )

    def _take(self, code: np.ndarray) -> None:
        self.at, self.feature = map(np.ascontiguousarray, np.nonzero(code))
        self.sign = np.sign(code[self.at, self.feature])
        self._start = self._places.starts[self.at]
        self._lower = self._factor()

    def _factor(self) -> np.ndarray | None:
        """Return the Cholesky factor of G; None if it is large, or singular."""
        count = len(self.at)
        if not 0 < count <= _FACTORED:
            return None
        places, gram = self._places, np.empty((count, count))
        y, x = places.corners(self.at)
        gram_placed(y, x, self.feature, self._atoms, places.patch, places.bounds, gram)
        try:
            lower: np.ndarray = np.linalg.cholesky(gram)
        except np.linalg.LinAlgError:
            return None
        pivots = np.square(np.diagonal(lower))
        return lower if (pivots > _DEPENDENT * np.diagonal(gram)).all() else None

    @property
    def residual(self) -> np.ndarray:
        """The image minus its reconstruction, with margin."""
        found: np.ndarray = self._image - self._synthesise(self.code)
        return found

    def gradients(self, by_code: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the gradients by image, dictionary and penalty, of that by the code `[positions, features]`.

        Raises SingularError if the active set is singular.
        """
        nothing = np.zeros(len(self.at))
        if self._lower is None:
            # A gradient may not show what is singular, as one that is alike for equal atoms; noise does.
            self._solved(np.random.default_rng(0).standard_normal(len(nothing)), nothing)
        w = self._solved(by_code[self.at, self.feature], nothing)
        u, atoms = self._synthesise(w), np.zeros_like(self._atoms)
        pixels = self._places.pixels(self.at)
        residual, shown = self.residual.ravel()[pixels], u.ravel()[pixels]
        np.add.at(atoms, self.feature, w[:, None] * residual - self.code[:, None] * shown)
        return self._places.inner(u), atoms, -float(self.sign @ w)

    def _synthesise(self, code: np.ndarray) -> np.ndarray:
        found = np.zeros(self._image.shape)  # in the order of its axes, whatever that of the image is
        add_placed(code, self._start, self.feature, self._atoms, self._row, self._pitch, found.reshape(-1))
        found *= self._inside
        return found

    def _analyse(self, padded: np.ndarray) -> np.ndarray:
        found, sums = np.empty(len(self.at)), np.empty(self._row)
        image = np.ascontiguousarray(padded).reshape(-1)
        correlate_placed(image, self._start, self.feature, self._atoms, self._row, self._pitch, sums, found)
        return found

    def _solved(self, target: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Return G^-1 target, by its factor or by conjugate gradients from `start`."""
        if not len(target):
            return target.astype(float)
        if self._lower is not None:
            found = target.astype(float)
            solve_factored(self._lower, found)
            return found
        x = start.astype(float)
        r = target - self._analyse(self._synthesise(x))
        p, square, top = r.copy(), float(r @ r), 0.0
        limit = (_TOLERANCE * float(np.linalg.norm(target))) ** 2
        for _ in range(10 * len(target) + 50):
            if square <= limit:
                return x
            image = self._synthesise(p)
            curvature, length = float(np.vdot(image, image)), float(p @ p)
            top = max(top, curvature / length)
            if curvature <= _SINGULAR * top * length:
                break
            step = square / curvature
            x += step * p
            r -= step * self._analyse(image)
            before, square = square, float(r @ r)
            p = r + square / before * p
        else:
            if square <= 1e6 * limit:
                return x
        raise SingularError(
            f"the {len(target)} atoms that describe an image depend on each other: its code is not unique\n"
            "    hint:     a larger threshold, or atoms that differ"
        )
