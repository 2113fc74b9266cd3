"""Abstract parts for weights: initialisers, also of state variables, normalisers and learning rules."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from petabatch.arrays import is_array
from petabatch.spec.frozen import FROZEN
from petabatch.spec.model import Finite, Flag, Offset, OneOf, Part
from petabatch.spec.schedule import DISPLAY, Schedule
from petabatch.variable import Array, Variable

if TYPE_CHECKING:
    from petabatch.geometry import Link
    from petabatch.spec.parts import PatchOwner


_DRAWN = re.compile(r"^(?:\w+\.)*(rand|random|uniform|randn|normal|gauss)\s*\(")
"""What other programs draw random values with."""


class Initial(Part):
    """Initialisation of weights, and of the state variables of layers."""

    kind: ClassVar[str] = "initialiser"
    given: ClassVar[bool] = False
    """The values are given, not drawn: with `per_slice`, those of all slices at once."""
    type: str
    per_slice: Flag = False
    """Start each slice from values of its own, drawn from the seed and the number of the slice; values that
    are given then have a leading batch axis. By default all slices start alike."""

    @classmethod
    def hint(cls, value: Any) -> str:
        """Return the initialiser of a number, or of a file."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            return f'one value for all is {{ type = "constant", value = {float(value):g} }}'
        if isinstance(value, list | tuple):
            return 'values of each unit are { type = "file", path = "values.npy" }, or an array in Python'
        if isinstance(value, str) and (drawn := _DRAWN.search(value)):
            normal = drawn[1] in ("randn", "normal", "gauss")
            table = 'type = "gaussian", std = 1.0' if normal else 'type = "uniform", low = 0.0, high = 1.0'
            return f"random values are {{ {table} }}"
        if isinstance(value, str) and Path(value).suffix:
            return f'values in a file are {{ type = "file", path = "{value}" }}'
        return super().hint(value)

    @classmethod
    def table(cls, value: Any) -> Any:
        """Return the initialiser of an array."""
        return {"type": "array", "data": value} if is_array(value) else value

    def draws_from(self, key: str) -> bool:
        """Say that all numbers are those of a distribution."""
        return True

    @property
    def of_patches(self) -> bool:
        """Whether values depend on their place in a patch: they are no states of layers, nor synapses."""
        return False

    def synapses(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return which synapses the values are of, where they are those of some: `starts` and `targets`.

        Both are as in `petabatch.spec.synapses.Drawn`, or `[batch, ...]`; None where it is not known. Raises
        InputError.
        """
        return None

    @property
    def limits(self) -> tuple[float, float] | None:
        """The smallest and the largest value that is drawn, None where there are no limits or any."""
        return None

    @abstractmethod
    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return float64 weights `[..., nf_pre, nyp, nxp, nf_post]`; leading axes count kernels.

        For a state variable, return its values `[ny, nx, nf]`. If the values are `given` per slice, a leading
        batch axis is added to `shape`.
        """


NumberOrInitial = Annotated[dict[str, Finite | Annotated[Initial, OneOf(Initial)]], FROZEN]
"""Numbers by name, or initialisers for a value of each unit or synapse."""


class Normalize(Part):
    """Normalisation of weights, after initialisation and after each update."""

    kind: ClassVar[str] = "normaliser"
    type: str
    at_start: Flag = True
    """Normalise the initial weights."""
    at_updates: Flag = True
    """Normalise after each update."""
    together: tuple[str, ...] = ()
    """Names of connections to normalise jointly with this one, as if their weights were one array
    (PetaVision's NormalizeGroup). They must not have a `normalize` of their own."""

    @property
    def featurewise(self) -> bool:
        """Whether each pre feature is normalised by itself."""
        return False

    @abstractmethod
    def apply(self, weights: Array, xp: Any) -> None:
        """Normalise `[lanes or 1, ky, kx, nf_pre, nyp, nxp, nf_post]` in place."""

    def apply_together(self, several: Sequence[Array], xp: Any) -> None:
        """Normalise several arrays jointly, in place, as one array whose patches hold all their weights."""
        if len(several) == 1:
            self.apply(several[0], xp)
            return
        flat = [weights.reshape(*weights.shape[:4], 1, 1, -1) for weights in several]
        joint = xp.concatenate(flat, axis=-1)
        self.apply(joint, xp)
        ends = list(accumulate(weights.shape[-1] for weights in flat))
        for weights, end in zip(several, ends, strict=True):
            size = weights[0, 0, 0, 0].size
            weights[...] = joint[..., end - size : end].reshape(weights.shape)


class Learning(Part):
    """Learning rule of a plastic connection."""

    kind: ClassVar[str] = "learning rule"
    answers = ("featurewise",)
    type: str
    every: Schedule = DISPLAY
    """Update schedule: the weights are updated at the end of these steps."""
    offset: Offset = 0
    """Delay of the updates, in steps."""
    against_key: ClassVar[str] = "error"
    """The key that names the layer of `against`."""

    @property
    @abstractmethod
    def against(self) -> str | None:
        """The layer whose activity is multiplied with the pre layer's; None for the post layer."""

    @property
    @abstractmethod
    def counted(self) -> bool:
        """Whether `change` needs the number of active pre units for each weight."""

    @property
    def featurewise(self) -> bool:
        """Whether each pre feature learns by itself, so that features can be split over ranks."""
        return False

    @property
    def starts(self) -> Mapping[str, tuple[str, Initial]]:
        """Initialisers of variables of the rule that do not start at 0, each with the key that gives it."""
        return {}

    def check(self, owner: PatchOwner, link: Link, report: Callable[..., None]) -> None:
        """Report, by `report(key, message, found=, expected=, hint=)`, why these weights cannot learn so."""

    def sums(self, weights: Variable) -> Sequence[Variable]:
        """Declare what else `change` needs summed over positions and slices, beside products and counts.

        Such a rule needs all of both layers on each rank, and no clones that learn too.
        """
        return ()

    def measure(
        self,
        units: Array,
        patches: Array,
        weights: Array,
        into: Mapping[str, Array],
        update: int,
        slices: Sequence[int],
        batch: int,
        multiply: Callable[[Array, Array], Array],
    ) -> None:
        """Write these sums, of each slice of a lane alone, for update number `update`.

        `units` are those of the pre layer `[lanes, positions, nf_pre]`, `patches` what those of each position
        show of the layer learned against `[lanes, positions, K]`, `weights` are `[lanes or 1, nf_pre, K]`;
        `slices` are the numbers of these among the `batch` of all. `multiply` returns the product of
        matrices.
        """
        raise NotImplementedError(f"learning rules of type {self.type} declare no sums")

    def tally(self, pre: Array) -> Array:
        """Return the summand of `counts`: by default 1 for each active pre unit."""
        return (pre != 0).astype(pre.dtype)

    @abstractmethod
    def variables(self, weights: Variable) -> Sequence[Variable]:
        """Declare the state of the rule, such as a momentum, with the shape of the weights."""

    @abstractmethod
    def change(
        self,
        weights: Array,
        product: Array,
        counts: Array | None,
        state: Mapping[str, Array],
        update: int,
        slices: int,
        xp: Any,
    ) -> None:
        """Change `weights` in place, at update number `update` (from 0).

        `product` is the sum of pre * post over positions (and over `slices` slices, for modes `extra_*`),
        with the shape of the weights, and `state` has the other `sums` too. `counts` is the number of active
        pre units in that sum, equal for all post features: its last axis has length one.
        """
