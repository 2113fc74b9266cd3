"""Single synapses of a slice as a table: pre unit, post unit, weight and delay."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.clock import Clock
from petabatch.errors import ArgumentError, Described, ResourceError, install, printable
from petabatch.weight_mode import over_positions

_SUFFIXES = (".npz", ".csv")


@dataclass(frozen=True)
class Between:
    """The layers that synapses join."""

    pre: tuple[int, int, int]
    post: tuple[int, int, int]
    mode: str

    @property
    def positions(self) -> int:
        """Places at which the same synapses are."""
        return self.pre[0] * self.pre[1] if over_positions(self.mode) else 1

    @property
    def units(self) -> tuple[int, int]:
        """Units of both layers."""
        return int(np.prod(self.pre)), int(np.prod(self.post))


@dataclass(frozen=True, eq=False)
class SynapseTable:
    """The synapses of a connection in one slice, by pre unit and post unit.

    Units are numbered as in memory: by row, column and feature. Weights that belong to the features at one
    position (`mode` with `shared`) are there once for each position.
    """

    i: np.ndarray
    """Unit of the pre layer, int64 `[synapse]`."""
    j: np.ndarray
    """Unit of the post layer, int64 `[synapse]`."""
    w: np.ndarray
    """Weight `[synapse]`."""
    delay: np.ndarray
    """Delay of its own, in the unit of `run.dt`, float64 `[synapse]`; that of the connection is not in it."""
    size: tuple[int, int]
    """Units of both layers."""
    step: int
    """The step at whose end it had these weights."""
    name: str = ""
    """The connection and the slice."""

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with the columns `i`, `j`, `w` and `delay`, a row for each synapse.

        Needs the `analysis` extra: raises ResourceError without it.
        """
        try:
            import pandas
        except ImportError as error:
            raise ResourceError(f"pandas is not installed\n    hint:     {install('analysis')}") from error
        return pandas.DataFrame(self._columns)

    def to_scipy(self) -> Any:
        """Return a `scipy.sparse.coo_array` of the weights `[pre unit, post unit]`, without the delays.

        Needs the `analysis` extra: raises ResourceError without it.
        """
        try:
            from scipy import sparse
        except ImportError as error:
            raise ResourceError(f"scipy is not installed\n    hint:     {install('analysis')}") from error
        return sparse.coo_array((self.w, (self.i, self.j)), self.size)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.npz` file that a connection of type `sparse` reads as its `path`, or text: `.csv`.

        Text has the columns `i`, `j`, `w` and `delay`. Raises ArgumentError for another name, and where the
        file exists.
        """
        target = Path(path)
        if target.suffix not in _SUFFIXES:
            expected = f"the name of a {' or a '.join(_SUFFIXES)} file"
            raise ArgumentError("path", "synapses are not written so", str(path), expected)
        if target.exists():
            raise ArgumentError("path", "there is such a file", str(path), "a name that none has")
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".csv":
            lines = zip(*(column.tolist() for column in self._columns.values()), strict=True)
            text = "".join(f"{i},{j},{w!r},{delay!r}\n" for i, j, w, delay in lines)
            target.write_text(f"{','.join(self._columns)}\n{text}")
            return
        arrays: dict[str, Any] = {"row": self.i, "col": self.j, "data": self.w, "shape": np.array(self.size)}
        arrays |= {"delay": self.delay} if self.delay.any() else {}
        with target.open("xb") as file:
            np.savez(file, **arrays)

    @property
    def _columns(self) -> dict[str, np.ndarray]:
        return {"i": self.i, "j": self.j, "w": self.w, "delay": self.delay}

    def __len__(self) -> int:
        return len(self.w)

    def __repr__(self) -> str:
        return printable(f"<{len(self):,} synapses of {self.name}, step {self.step:,}>")


def table_of(
    between: Between,
    starts: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    delays: np.ndarray | None,
    dt: float,
    step: int,
    label: str,
) -> SynapseTable:
    """Return the synapses of a slice, of arrays as the state holds them; the places after the last are left.

    Raises ArgumentError where the arrays are not those of one network.
    """
    count = int(starts[-1])
    lengths = np.diff(starts)
    if not 0 <= count <= len(targets) or (lengths < 0).any() or len(weights) < count:
        found = Described(f"{count} synapses by pre unit, {len(targets)} post units, {len(weights)} weights")
        raise ArgumentError("synapses", "these arrays do not go together", found, "those of one step")
    pre, post = between.units
    own = np.arange(between.positions)[:, None]
    i = np.repeat(np.arange(len(lengths)), lengths) + own * (pre // between.positions)
    j = targets[:count].astype(np.int64) + own * (post // between.positions)
    late = np.zeros(count) if delays is None else Clock(dt=dt).time(delays[:count])
    w, late = (np.tile(values, between.positions) for values in (weights[:count], late))
    return SynapseTable(i.ravel(), j.ravel(), w, late, between.units, step, label)
