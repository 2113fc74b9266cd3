"""The file of a run: found, verified and opened, with its attributes and its slices."""

from __future__ import annotations

import json
import os
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np

from petabatch.errors import DamagedError, FormatError, Problem, StorageError, similar_path
from petabatch.results.series import slice_number
from petabatch.storage import JSON_ATTRIBUTES, seal
from petabatch.storage.containment import refuse_links
from petabatch.storage.damaged import naming_damage, refuse_others
from petabatch.storage.files import HDF5, PARTS, POINTS, lacking, output_at, output_in
from petabatch.storage.format import format_of


def find(path: str | os.PathLike[str]) -> Path:
    """Return the run file that is meant by a run directory, its `run.h5` or a merged file.

    Raises StorageError if there is none, FormatError if it is not in HDF5.
    """
    target = Path(path).absolute()
    if not target.exists():
        hint = similar_path(target, lambda path: path.is_dir() or path.suffix == ".h5")
        problem = Problem("", "there is no such run directory or file", hint=hint)
        raise StorageError(problem.render(str(target)))
    if target.is_dir() and (output_at(target) is HDF5 or not lacking(target)):
        refuse_links(target)
        output = output_in(target)
        if not (target / output.file).exists() and not (target / PARTS).is_dir():
            raise StorageError(f"{target}: this is not a run directory: it has no {output.file}")
        return target / output.file
    if output_at(target) is HDF5 and not (target.is_file() and h5py.is_hdf5(target)):
        hint = f"petabatch check {path} describes a params file" if target.suffix in (".toml", ".py") else ""
        problem = Problem("", "this is not a run file: it is not in HDF5", hint=hint)
        raise FormatError(problem.render(str(target)))
    return target  # a store may be without its run directory


class RunFile:
    """A run file, open for reading; a context manager."""

    def __init__(self, file: Path) -> None:
        self.path = file
        self._output = output_at(file)
        self._format = format_of(self._output)
        self._verify()
        try:
            self._file: Any = self._format.open(file)
        except (OSError, RuntimeError) as error:
            raise StorageError(f"{file}: the run file cannot be read: {error}") from error
        try:
            with naming_damage(file):
                refuse_others(file, self._file, "run")
                self._format.refuse(self._file)
        except StorageError:
            self._file.close()
            raise

    def _verify(self) -> None:
        folder, name = self.path.parent, self.path.name
        if self._output.metadata:
            name = f"{name}/{self._output.metadata}"
        elif name != self._output.file or not (folder / PARTS).is_dir():
            return  # a merged file, which HDF5's own checksums protect
        try:
            seal.verify(folder, name)
        except DamagedError as error:
            hint = f"`petabatch verify --repair {folder}` rebuilds it"
            if self._output.metadata and not self.path.exists() and not (folder / POINTS).is_dir():
                hint = f"restore {self.path.name}/ from a copy: it had what was recorded"
            raise DamagedError(f"{error}\n    hint:     {hint}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open_file(self) -> Any:
        """Return the file; raises StorageError after `close`."""
        if not self._file:
            raise StorageError(
                f"{self.path}: the run is closed\n"
                "    hint:     read inside of the `with` block, or open it again"
            )
        return self._file

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def attributes(self) -> dict[str, Any]:
        """The root attributes: params, versions, seed, hosts, times; see docs/file-format.md."""
        with naming_damage(self.path):
            attributes = (
                (name, v.item() if isinstance(v, np.generic) else v)
                for name, v in self._open_file().attrs.items()
            )
            return {name: json.loads(v) if name in JSON_ATTRIBUTES else v for name, v in attributes}

    @property
    def params(self) -> dict[str, Any]:
        """The params of the run, with all defaults."""
        return dict(self.attributes.get("params", {}))

    @property
    def status(self) -> str:
        """`running` (or killed), `stopped` (can be resumed) or `done`."""
        with naming_damage(self.path):
            return str(self._open_file().attrs["status"])

    @property
    def steps_reached(self) -> int:
        """The last step whose recordings are in the file."""
        with naming_damage(self.path):
            return int(self._open_file().attrs["steps_reached"])

    @cached_property
    def gaps(self) -> list[tuple[int, int]]:
        """Steps that were recorded and lost, each the first and last of a stretch; no record has them.

        `petabatch verify --repair` took the damaged files out of the run.
        """
        with naming_damage(self.path):
            return [(int(first), int(last)) for first, last in self.attributes.get("gaps", ())]

    @property
    def batch(self) -> int:
        """Number of slices in the batch."""
        with naming_damage(self.path):
            return len(self._open_file()["batch"])

    @cached_property
    def coordinates(self) -> dict[str, np.ndarray]:
        """What slices differ in, by name such as `threshold`: a value for each slice, `[batch]`.

        Of a sweep also the number of the `point`, and of the `slice` in it. They are coordinates in xarray.
        """
        with naming_damage(self.path):
            items = self._open_file().items()
            return {name: np.asarray(item[()]) for name, item in items if "key" in item.attrs}

    @cached_property
    def differing(self) -> dict[str, np.ndarray]:
        """Those of the coordinates that are values of keys, in the order of [sweep]."""
        with naming_damage(self.path):
            keys = {name: str(self._open_file()[name].attrs["key"]) for name in self.coordinates}
        swept = list((self.params.get("sweep") or {}).get("values", {}))
        place = {name: swept.index(key) if key in swept else len(swept) for name, key in keys.items()}
        names = sorted(self.coordinates, key=lambda name: place[name])
        return {name: self.coordinates[name] for name in names if name not in ("point", "slice", "failed")}

    @cached_property
    def failed(self) -> int:
        """Number of points of a sweep that failed: that became NaN, or raised an error.

        The coordinate `failed` is the step at which each did.
        """
        return int(self.attributes.get("points", {}).get("failed", 0))

    def label(self, slice: int) -> str:
        """Return what tells a slice from others: `threshold 0.3, slice 1`, or `slice 5` in a plain batch.

        Raises NotRecorded if there is no such slice; a negative one counts from the end of the batch.
        """
        slice = slice_number(str(self.path), slice, self.batch)
        values = self.differing
        found = [f"{name} {column[slice]:.6g}" for name, column in values.items()]
        alike = sum(
            all(column[other] == column[slice] for column in values.values()) for other in range(self.batch)
        )
        if alike > 1 or not found:
            number = self.coordinates["slice"][slice] if "slice" in self.coordinates else slice
            found.append(f"slice {number}")
        return ", ".join(found)

    @cached_property
    def unit(self) -> str:
        """The unit of times, `run.unit`; empty where it is not given."""
        return str(self.params.get("run", {}).get("unit") or "")

    @cached_property
    def display(self) -> int | None:
        """The display period in steps, None where the params do not tell."""
        period = self.params.get("run", {}).get("display")
        return None if period is None else int(period)
