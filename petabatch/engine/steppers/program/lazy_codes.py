"""Lazily evaluated codes of a slice, in a program: their start, and their potentials when asked for."""

from __future__ import annotations

import numpy as np

from petabatch.engine.steppers.program.compiled import CompiledProgram
from petabatch.engine.steppers.program.slice import ProgramSlice
from petabatch.engine.steppers.program.workspace import Workspace
from petabatch.kernels.cpu.program.lazy import layout
from petabatch.kernels.cpu.program.lazy.step import materialise
from petabatch.kernels.cpu.program.views import Arrays
from petabatch.kernels.operations.fields import fields_of
from petabatch.kernels.operations.updates import UpdateLazily


class LazyCodes:
    """What lazily evaluated codes of one slice keep, in arrays of the state and its own."""

    def __init__(self, program: CompiledProgram, of: ProgramSlice) -> None:
        self.tables, self.arrays, self.own = program.tables, of.arrays, of.own
        self._program, self._addresses = program, of.addresses
        self._written = False
        """The potentials are those of the last step."""
        self._normed = False
        """The norms of weights of each unit's own are those of the present weights."""

    @property
    def behind(self) -> bool:
        """Whether the potentials are those of a step before, also in a state that was taken over."""
        return not self._written and any(self.arrays[code.decay][0] != 0 for code in self.tables.program.lazy)

    def warm_up(self, space: Workspace) -> None:
        """Compile what writes the potentials."""
        if self.tables.lazy_rows:
            (features,) = (one for one in fields_of(UpdateLazily) if one.name == "features")
            nothing = np.zeros(self._program.rows.shape[1], np.int64)
            nothing[features.column] = 1
            materialise(nothing, self._program.drives, Arrays(space.arrays[0], np.float32), space.shapes)

    def start(self) -> None:
        """Prepare a call of the compiled loop."""
        self._written = False
        if self.tables.norms_of:
            self._norm()

    def _norm(self) -> None:
        """Compute the norms of weights of each unit's own, if these may have changed."""
        for code in self.tables.program.lazy:
            starts = self.arrays[code.decay][0] == 0 and self.arrays[code.awake][0] == 0
            self._normed = self._normed and not starts
        if not self._normed:
            for key, weights in self.tables.norms_of.items():
                patches = self.arrays[weights.key].reshape(-1, weights.patches.length)
                self.own[key][: len(patches)] = layout.norms(patches)
            self._normed = True

    def forget(self) -> None:
        """Go on from V as it is now, instead of from what is kept."""
        for code in self.tables.program.lazy:
            self.arrays[code.decay][...] = 0

    def write_potentials(self, space: Workspace) -> None:
        """Write V, with the weights in the workspace of this thread."""
        arrays = np.where(self._addresses != 0, self._addresses, space.arrays[0])
        for row in self.tables.lazy_rows:
            materialise(
                self._program.rows[row], self._program.drives, Arrays(arrays, np.float32), space.shapes
            )
        self._written = True

    def computed(self, steps: int) -> dict[str, float]:
        """Return the share of units computed in a step so far, of `steps`, of each code."""
        return {
            code.layer: float(self.own[f"own/{code.layer} kept"][layout.COMPUTED])
            / (max(1, steps) * self.arrays[code.history].size)
            for code in self.tables.program.lazy
        }
