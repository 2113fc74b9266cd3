"""Results of a run in memory: a run file that is on no disk."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from petabatch.results import Results
from petabatch.storage import FORMAT
from petabatch.storage.description import Description
from petabatch.storage.layout import lay_out
from petabatch.storage.seal import new_run_id
from petabatch.variable import Stream

Recorded = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""Steps and values of each stream that was recorded, by path."""


@dataclass(frozen=True)
class Row:
    """All steps, as one row of segments."""

    first: int
    last: int
    steps: Mapping[str, np.ndarray]
    """By path; none of what was not recorded."""

    def times(self, stream: Stream) -> tuple[int, int]:
        """Return the number of times, and what tells their steps from others."""
        steps = self.steps.get(stream.path, np.zeros(0, np.int64))
        return len(steps), hash(steps.tobytes())


class ResultsInMemory(Results):
    """Results as `petabatch.open` returns them; the run file is made when it is first read."""

    def __init__(
        self, describe: Callable[[], Description], recorded: Recorded, began: int, last: int
    ) -> None:
        """Take what was recorded after step `began` and up to step `last`."""
        self.path = Path("in memory")
        self._contained, self._series = set(), {}
        self._describe, self._recorded, self._began, self._last = describe, recorded, began, last
        self._file: Any = None

    def close(self) -> None:
        """Do nothing: the memory is freed when nothing refers to the results."""

    def __repr__(self) -> str:
        self._open_file()
        return super().__repr__()

    def _repr_html_(self) -> str:
        self._open_file()
        return super()._repr_html_()

    def _open_file(self) -> Any:
        if self._file is None:
            self._file = self._made()
        return self._file

    def _datatree_source(self) -> tuple[Any, str]:
        file = self._open_file()
        file.flush()
        return io.BytesIO(file.id.get_file_image()), "h5netcdf"

    def _made(self) -> Any:
        described = self._describe()
        name = f"in memory {new_run_id()}"  # HDF5 knows open files by their names
        file = h5py.File(name, "w", driver="core", backing_store=False, libver=("v110", "v110"))
        file.attrs["petabatch_format"] = FORMAT

        def values(group: Any, name: str, stream: Stream, length: int) -> Any:
            none = np.zeros((0, *stream.shape), stream.dtype)
            return group.create_dataset(name, data=self._recorded.get(stream.path, (none, none))[1])

        def steps(group: Any, name: str, stream: Stream, length: int) -> Any:
            none = np.zeros(0, np.int64)
            return group.create_dataset(name, data=self._recorded.get(stream.path, (none, none))[0])

        taken = {path: steps for path, (steps, _) in self._recorded.items()}
        lay_out(file, [Row(self._began + 1, self._last, taken)], [], described, values, steps)
        return file
