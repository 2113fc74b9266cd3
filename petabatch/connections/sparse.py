"""Sparse connections: single synapses between units, random or given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.clock import Clock
from petabatch.connections.coordinates import Coordinates, Matrix, given_coordinates, read_coordinates
from petabatch.connections.wirings import MOST_PAIRS, Profile, Rule, distances, farthest, in_order
from petabatch.errors import InputError
from petabatch.spec.model import Count, Flag, Fraction, NonNegative, OneOf, Part, Positive
from petabatch.spec.parts import Connection, Layer, Operation, WeightOwner, Wiring
from petabatch.spec.paths import FilePath
from petabatch.spec.plasticity import Plasticity, SynapticRule
from petabatch.spec.synapses import LONGEST, Drawn, Ends, Synapses
from petabatch.spec.weights import Initial
from petabatch.weight_mode import WeightMode, for_each_slice, over_positions, over_slices

_BLOCK = 1 << 20
"""Synapses whose delays are computed at a time."""
_DRAWN = ("probability", "in_degree", "out_degree", "number")
_ORIGINS = (*_DRAWN, "path", "matrix")


class Sparse(Connection):
    """Single synapses: `probability`, `in_degree`, `out_degree`, `number`, `path` or `matrix` says which.

    What arrives is summed from the active units of the pre layer alone, so that its cost grows with their
    number. Units are numbered in memory order: row, column, feature. The weights are recorded as others are,
    and `run.synapses("NAME")` has them with their units and delays. Between layers that spike, they can
    `learn`: then spikes arrive in the next step at the earliest, so that the connection closes no cycle.
    """

    type: Literal["sparse"] = "sparse"
    probability: Fraction | None = None
    """Probability of each possible synapse, independently of all others; with `profile`, at distance 0."""
    in_degree: Count | None = None
    """Number of synapses onto each post unit, from pre units that are all different."""
    out_degree: Count | None = None
    """Number of synapses of each pre unit, onto post units that are all different."""
    number: Count | None = None
    """Number of all synapses, each between two units drawn independently; a pair can have several."""
    path: FilePath | None = None
    """Matrix `[pre units, post units]` of weights: a `.npz` file written by `scipy.sparse.save_npz` (COO, CSR
    or CSC), or by `numpy.savez` with arrays `row`, `col`, `data` and, in the unit of `run.dt`, `delay`; a
    pair of units can have several synapses. The names `i`, `j` and `w` are those of Brian2; others are
    refused."""
    matrix: Matrix | None = None
    """A matrix of SciPy `[pre units, post units]`, or a list of edges: rows of pre unit, post unit, weight
    and delay, or a tuple of these columns; in Python only."""
    self_connections: Flag = True
    """Whether a unit can have a synapse onto itself, where pre and post layer are the same."""
    profile: Profile | None = None
    """How the probability of synapses depends on the distance of their units; with `in_degree` and
    `out_degree`, how likely each unit is to be chosen."""
    periodic: Flag = False
    """Whether distances are those on a torus: opposite edges are neighbours."""
    per_slice: Flag = False
    """Each slice draws synapses of its own; by default all slices of a seed have the same."""
    delays: NonNegative | Annotated[Initial, OneOf(Initial)] | None = None
    """Delay of each synapse, in the unit of `run.dt`, rounded to steps, and in addition to `delay_steps` and
    to the delays of a matrix: a number, or an initialiser of type `uniform` or `truncated_normal`."""
    speed: Positive | None = None
    """Speed of conduction: distance / speed is added to the delay of each synapse."""
    mode: WeightMode = "extra_non_shared"
    """Weight sharing. `non_shared`: synapses between all units of the two layers. `shared`: between the
    features at one position, the same at each position. Without prefix, each slice has its own weights; with
    `extra_`, all slices share the same weights."""
    init: Annotated[Initial, OneOf(Initial)] | None = None
    """Initialisation of the weights, an array `[1, 1, 1, 1, 1, synapses]`; by default those of the file
    or matrix."""
    learn: Annotated[SynapticRule, OneOf(SynapticRule)] | None = None
    """How synapses change at the spikes of their units; by default they stay."""

    def doubts(self, dt: float, batch: int, steps: int) -> Iterator[str]:
        """Yield a note on delays that are rounded to none."""
        if isinstance(self.delays, float) and 0 < self.delays < dt / 2:
            yield f"`delays` of {self.delays:g} are less than half a step of run.dt, {dt:g}: there are none"

    @model_validator(mode="after")
    def _one_origin(self) -> Sparse:
        given = [key for key in _ORIGINS if getattr(self, key) is not None]
        if len(given) != 1:
            raise PydanticCustomError(
                "sparse",
                "it is not clear which synapses there are",
                {
                    "got": " and ".join(given) or "none of them",
                    "expected": "one of `probability`, `in_degree`, `out_degree`, `number`, `path` and, in "
                    "Python, `matrix`",
                },
            )
        weighted = self.path is not None or (self.matrix is not None and len(self.matrix) > 2)
        if self.init is None and not weighted:
            raise PydanticCustomError(
                "sparse_init",
                "the weights of the synapses are missing",
                {"got": "no `init`", "expected": 'such as init = { type = "uniform", low = 0, high = 1 }'},
            )
        drawn = given[0] in _DRAWN
        for key, wrong, expected in (
            ("profile", not drawn or self.number is not None, "`probability`, `in_degree` or `out_degree`"),
            ("per_slice", not drawn, "a rule by which they are drawn"),
            ("self_connections", not drawn, "a rule by which they are drawn"),
        ):
            if wrong and getattr(self, key) != type(self).model_fields[key].default:  # tables name all keys
                raise PydanticCustomError(
                    "sparse_key",
                    f"`{key}` is not for synapses like these",
                    {"got": given[0], "expected": expected},
                )
        return self

    @property
    def operation(self) -> Operation:
        """The sum over synapses."""
        return "sparse"

    @property
    def owner(self) -> WeightOwner:
        """This connection."""
        return self

    @property
    def learns(self) -> bool:
        """Whether the weights ever change."""
        return self.learn is not None

    @property
    def plasticity(self) -> Plasticity | None:
        """What its rule says."""
        return None if self.learn is None else self.learn.plasticity

    @property
    def learned(self) -> tuple[str, ...]:
        """The traces and variables of its rule."""
        rule = self.plasticity
        return () if rule is None else (*rule.traces, *rule.variables)

    @property
    def later(self) -> bool:
        """Whether spikes arrive in the next step at the earliest: events of synapses end a step."""
        return self.learn is not None

    @property
    def as_patches(self) -> None:
        """None: they are weights of single synapses."""
        return None

    def plain(self, keys: Sequence[str]) -> bool:
        """Say that the strength is a factor on what arrives."""
        return list(keys) == ["strength"]

    def draws_from(self, key: str) -> bool:
        """Say that all numbers but the strength and those of the rule are those of synapses."""
        return key not in ("strength", "learn")

    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Check that the synapses have places in the two layers."""
        pre, post = layers[self.pre].shape, layers[self.post].shape
        shared = over_positions(self.mode)
        if shared and pre[:2] != post[:2]:
            report(
                "mode",
                "synapses between features need the same positions in both layers",
                found=f"pre {list(pre)}, post {list(post)}",
                expected='equal rows and columns, or mode = "extra_non_shared"',
            )
            return None
        positions = pre[0] * pre[1] if shared else 1
        ends = Ends(positions, int(np.prod(pre)) // positions, post, pre)
        if not self._suits(ends, report):
            return None
        self._check_slices(report)
        try:
            self._given(ends)
        except InputError as error:
            report("path" if self.path is not None else "matrix", str(error))
            return None
        return Wiring(synapses=ends)

    def _suits(self, ends: Ends, report: Callable[..., None]) -> bool:
        """Report a rule that cannot be followed between these units; return whether there is none."""
        shared = over_positions(self.mode)
        if not self.self_connections and self.pre != self.post:
            report(
                "self_connections", "no unit is in both layers", f"{self.pre} and {self.post}", "one layer"
            )
            return False
        for key in ("profile", "speed"):
            if shared and getattr(self, key) is not None:
                text = "synapses between the features at one position have no length"
                report(
                    key,
                    text,
                    found=f'mode = "{self.mode}"',
                    expected=f'"{self.mode.replace("shared", "non_shared")}"',
                )
                return False
        kind = "features" if shared else "units"
        own = 0 if self.self_connections else 1
        if self.number is not None and ends.post_units == own:
            report(
                "number",
                "there is no other unit to have synapses onto",
                found=f"1 of the {kind} of {self.post}, self_connections = false",
                expected="2 at least, or self_connections = true",
            )
            return False
        if self._rule.pairs(ends) > MOST_PAIRS:
            report(
                "profile",
                "there are too many pairs of units whose distance is to be looked at",
                found=f"{self._rule.pairs(ends):,}",
                expected=f"at most {MOST_PAIRS:,}, which takes hours",
                hint="a rule without `profile`, or a matrix of the pairs that are near",
            )
            return False
        for key, text, most, layer in (
            ("in_degree", "there are fewer units to receive synapses from", ends.pre - own, self.pre),
            ("out_degree", "there are fewer units to have synapses onto", ends.post_units - own, self.post),
        ):
            wanted = getattr(self, key)
            if wanted is None:
                continue
            near = most if self.profile is None else self._rule.fewest(ends)
            if wanted > near:
                where = f"the {kind} of {layer}" if near == most else "those within the profile of each unit"
                report(key, text, found=str(wanted), expected=f"at most {near}, {where}")
                return False
        limits = self._limits
        if limits is None or limits[0] < 0:
            found = self.delays.type if isinstance(self.delays, Part) else ""
            expected = "a number, or uniform or truncated_normal with bounds that are not negative"
            report("delays", "these are no delays with a limit", found=found, expected=expected)
            return False
        return True

    def _check_slices(self, report: Callable[..., None]) -> None:
        """Report what cannot differ among slices, and weights that are none of synapses."""
        for key, own in (
            ("init.per_slice", self.init is not None and self.init.per_slice),
            ("per_slice", self.per_slice),
        ):
            if own and over_slices(self.mode):
                report(
                    key,
                    "these weights belong to all slices",
                    found=f'mode = "{self.mode}"',
                    expected=f'mode = "{for_each_slice(self.mode)}"',
                )
        if self.learn is not None and over_positions(self.mode):
            report(
                "mode",
                "synapses that learn at spikes are between two units, and not the same at several positions",
                found=f'mode = "{self.mode}"',
                expected=f'mode = "{self.mode.replace("shared", "non_shared")}"',
            )
        if self.init is not None and self.init.of_patches:
            report(
                "init",
                "this initialiser is for the weights of patches",
                found=self.init.type,
                expected="array, constant without same_feature, file, gaussian, truncated_normal or uniform",
            )

    def expected(self, ends: Ends) -> float:
        """Return the number of synapses that the rule makes on average; none where they are given."""
        return 0 if self.path is not None or self.matrix is not None else self._rule.expected(ends)

    def synapses(self, ends: Ends, rng: np.random.Generator, dt: float) -> Synapses:
        """Draw or read the synapses, by pre unit and post unit."""
        given = self._given(ends)
        first = self._sorted(ends, given, rng, dt)
        if given is not None:
            longest = 0 if first.delays is None else int(first.delays.max(initial=0))
            count = len(first.targets)
            return Synapses(first, ends, self.init, self.mode, False, False, count, longest, learn=self.learn)
        if not self.per_slice and over_slices(self.mode):  # no slice draws longer ones
            longest = 0 if first.delays is None else int(first.delays.max(initial=0))
        else:
            longest = self._longest(given, ends, dt)
        count = len(first.targets)
        return Synapses(
            first, ends, self.init, self.mode, self.per_slice, True, count, longest, learn=self.learn
        )

    def room(self, ends: Ends, dt: float) -> tuple[int, int]:
        """Return the bounds of the rule, or the numbers of what is given."""
        given = self._given(ends)
        most = self._rule.most(ends) if given is None else len(given.pre)
        return most, self._longest(given, ends, dt)

    def _longest(self, given: Coordinates | None, ends: Ends, dt: float) -> int:
        """Return the longest delay that there can be, in steps."""
        _, high = self._limits or (0, 0)
        high += farthest(ends, self.periodic) / self.speed if self.speed is not None else 0
        if given is not None and given.delays is not None:
            high += float(given.delays.max(initial=0))
        return _steps(high, dt)

    def _sorted(self, ends: Ends, given: Coordinates | None, rng: np.random.Generator, dt: float) -> Drawn:
        """Return the synapses of a slice, drawn unless they are given."""
        if given is None:
            pre, post = in_order(*self._rule.draw(ends, rng), ends.post_units)
            weights = late = None
        else:
            order = np.lexsort((given.post, given.pre))
            pre, post = given.pre[order], given.post[order].astype(np.int32)
            weights = None if self.init is not None else given.weights[order]
            late = None if given.delays is None else given.delays[order]
        starts = np.searchsorted(pre, np.arange(ends.pre + 1, dtype=pre.dtype)).astype(np.int64)
        delays = None
        if self.delays is not None or self.speed is not None or late is not None:
            delays = self._in_steps(ends, pre, post, late, rng, dt)
        return Drawn(starts, post, weights, delays)

    def _in_steps(
        self,
        ends: Ends,
        pre: np.ndarray,
        post: np.ndarray,
        late: np.ndarray | None,
        rng: np.random.Generator,
        dt: float,
    ) -> np.ndarray:
        """Return the delays of synapses, int32; `late` is what they have of their own."""
        drawn, fixed = None, 0.0
        if isinstance(self.delays, Part):
            drawn = self.delays.weights((len(pre),), rng)
        elif self.delays is not None:
            fixed = self.delays
        found, clock = np.empty(len(pre), np.int32), Clock(dt=dt)
        for first in range(0, len(pre), _BLOCK):
            some = slice(first, first + _BLOCK)
            time = np.zeros(len(pre[some])) if late is None else late[some]
            time = time + (fixed if drawn is None else drawn[some])
            with np.errstate(over="ignore"):
                if self.speed is not None:
                    time = time + distances(ends, pre[some], post[some], self.periodic) / self.speed
                found[some] = np.minimum(np.floor(clock.steps(time) + 0.5), LONGEST + 1)
        return found

    @property
    def _rule(self) -> Rule:
        return Rule(
            self.probability, self.in_degree, self.out_degree, self.number, self.profile, self.periodic,
            not self.self_connections,
        )  # fmt: skip

    @property
    def _limits(self) -> tuple[float, float] | None:
        """The shortest and the longest of `delays`, None where they are not known."""
        if isinstance(self.delays, Part):
            return None if self.delays.of_patches else self.delays.limits
        return (self.delays or 0.0, self.delays or 0.0)

    def _given(self, ends: Ends) -> Coordinates | None:
        """Return the synapses that a file or matrix has; raises InputError if they do not fit."""
        if self.path is not None:
            return read_coordinates(self.path, ends.pre, ends.post_units)
        return None if self.matrix is None else given_coordinates(self.matrix, ends.pre, ends.post_units)


def _steps(time: float, dt: float) -> int:
    """Return how many steps a time is, rounded to the nearest; more than `LONGEST` are too many."""
    return int(min(np.floor(Clock(dt=dt).steps(time) + 0.5), LONGEST + 1))
