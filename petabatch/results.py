"""Reading of runs: `petabatch.open("runs/first")`. Needs only h5py, not the simulator."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np

from petabatch.errors import FormatError, PetabatchError, ResourceError, StorageError, did_you_mean
from petabatch.storage import FORMAT

_JSON = ("params", "inputs", "hosts", "devices", "libraries", "blas")


class UnknownName(PetabatchError, KeyError):
    """Nothing of this name was recorded in the run."""

    def __str__(self) -> str:
        return str(self.args[0])


class Series:
    """One recorded array, read lazily: `series[i]` reads the i-th time, `series[...]` everything."""

    def __init__(self, file: Path, dataset: Any) -> None:
        self._file, self._dataset = file, dataset
        self._steps = dataset.dims[0][0]
        self._segments = {
            file.parent / source.file_name
            for source in (dataset.virtual_sources() if dataset.is_virtual else ())
        }

    @property
    def name(self) -> str:
        """Path in the file, such as `layers/V1/A`."""
        return str(self._dataset.name).lstrip("/")

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes, such as `("time", "batch", "y", "x", "feature")`."""
        return tuple(dim.label for dim in self._dataset.dims)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(self._dataset.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        dtype: np.dtype[Any] = self._dataset.dtype
        return dtype

    @property
    def units(self) -> str:
        """Unit of the values; "1" if dimensionless."""
        return str(self._dataset.attrs["units"])

    @property
    def description(self) -> str:
        """Description of the values."""
        return str(self._dataset.attrs.get("description", ""))

    @property
    def steps(self) -> np.ndarray:
        """The steps after which the values were recorded, int64 `[time]`."""
        self._check()
        return np.asarray(self._steps[()])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        """Read with numpy's basic indexing; raises StorageError when a segment is missing."""
        self._check()
        if isinstance(key, int | np.integer) and not -len(self) <= key < len(self):
            raise IndexError(f"{self.name}: time {key} of {len(self)} records")
        values = self._dataset[key]
        self._check()
        return np.asarray(values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[...], dtype=dtype)

    def __repr__(self) -> str:
        axes = ", ".join(f"{dim}: {length}" for dim, length in zip(self.dims, self.shape, strict=True))
        return f"<{self.name} ({axes}) {self.dtype}>"

    def _check(self) -> None:
        """Raise StorageError if a segment is missing, for which HDF5 would silently return fill values."""
        missing = sorted(segment.name for segment in self._segments if not segment.exists())
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise StorageError(
                f"{self._file}: {self.name} cannot be read: segments are missing\n"
                f"    found:    no {', '.join(missing[:3])}{more} in {self._file.parent / 'parts'}\n"
                f"    hint:     if the run is still in progress, open it again; if run.h5 was copied, copy "
                f"parts/ as well, or use `petabatch merge` to make a self-contained file"
            )


class Results:
    """A run file, open for reading; a context manager. Data are read on access."""

    def __init__(self, file: Path) -> None:
        self.path = file
        try:
            self._file = h5py.File(file, "r")
        except OSError as error:
            raise StorageError(f"{file}: the run file cannot be read: {error}") from error
        found = self._file.attrs.get("petabatch_format"), self._file.attrs.get("kind")
        if found != (FORMAT, "run"):
            self._file.close()
            raise FormatError(
                f"{file}: not a run file of this version of petabatch\n"
                f"    found:    format {found[0]}, kind {found[1]}\n    expected: format {FORMAT}, kind run"
            )

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def attributes(self) -> dict[str, Any]:
        """The root attributes: params, versions, seed, hosts, times; see docs/file-format.md."""
        attributes = (
            (name, v.item() if isinstance(v, np.generic) else v) for name, v in self._file.attrs.items()
        )
        return {name: json.loads(value) if name in _JSON else value for name, value in attributes}

    @property
    def params(self) -> dict[str, Any]:
        """The params of the run, with all defaults."""
        return dict(self.attributes.get("params", {}))

    @property
    def status(self) -> str:
        """`running` (or killed), `stopped` (can be resumed) or `done`."""
        return str(self._file.attrs["status"])

    @property
    def steps_reached(self) -> int:
        """The last step whose recordings are in the file."""
        return int(self._file.attrs["steps_reached"])

    @property
    def batch(self) -> int:
        """Number of slices in the batch."""
        return len(self._file["batch"])

    def names(self) -> list[str]:
        """Return the paths of all recorded arrays, such as `layers/V1/A`."""
        found: list[str] = []

        def visit(path: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and "sparse" in item.attrs:
                found.append(path)

        self._file.visititems(visit)
        return found

    def series(self, place: str) -> Series:
        """Return a recorded array by its path, such as `layers/V1/A`."""
        names = self.names()
        if place not in names:
            raise _unknown(f"{self.path}: {place} was not recorded", place, names)
        return Series(self.path, self._file[place])

    def layer(self, name: str, variable: str = "A") -> Series:
        """Return a variable of a layer, `[time, batch, y, x, feature]`; `A` is the activity."""
        members = self._members("layers", "layer", name)
        if variable not in members:
            raise _unknown(f"{self.path}: {variable} of layer {name} was not recorded", variable, members)
        return self.series(f"layers/{name}/{variable}")

    def weights(self, name: str) -> Series:
        """Return the weights of a connection; the first axis is time."""
        self._members("connections", "connection", name)
        return self.series(f"connections/{name}/weights")

    def probe(self, name: str) -> dict[str, Series]:
        """Return the quantities that a probe measured, each `[step, batch]`."""
        return {q: self.series(f"probes/{name}/{q}") for q in self._members("probes", "probe", name)}

    def steps(self, place: str) -> np.ndarray:
        """Return the steps of a recorded array, int64 `[time]`; `place` as for `series`."""
        return self.series(place).steps

    def codes(self, name: str, time: int = -1, slice: int = 0) -> Any:
        """Return the code of a layer as a `scipy.sparse.csr_array` `[y * x, feature]`.

        `time` is an index into the recorded times, from the end if negative; `slice` the global slice number.
        """
        try:
            from scipy.sparse import csr_array
        except ImportError as error:
            raise ResourceError(
                "sparse codes need scipy\n    hint:     pip install 'petabatch[analysis]'"
            ) from error

        if not 0 <= slice < self.batch:
            raise IndexError(f"slice {slice} of a batch of {self.batch}")
        series = self.layer(name)
        if not -len(series) <= time < len(series):
            raise IndexError(f"{series.name}: time {time} of {len(series)} records")
        values = series[time % len(series), slice]
        return csr_array(values.reshape(-1, values.shape[-1]))

    def to_xarray(self) -> Any:
        """Return the whole file as a lazy `xarray.DataTree`; needs the `analysis` extra."""
        for place in self.names():
            self.series(place)._check()
        try:
            import xarray

            return xarray.open_datatree(self.path, engine="h5netcdf")
        except (
            ImportError,
            ValueError,
        ) as error:  # xarray raises ValueError for an engine that is not installed
            raise ResourceError(
                f"xarray or h5netcdf is not installed ({error})\n"
                f'    hint:     pip install "petabatch[analysis]"'
            ) from error

    def _members(self, folder: str, kind: str, name: str) -> list[str]:
        places = [place.split("/") for place in self.names() if place.startswith(f"{folder}/")]
        members = [place[2] for place in places if place[1] == name]
        if not members:
            recorded = {place[1] for place in places}
            raise _unknown(f"{self.path}: no {kind} named {name} was recorded", name, recorded)
        return members


def open(path: str | os.PathLike[str]) -> Results:
    """Open a run: its directory, its `run.h5`, or a file made by `petabatch merge`.

    Raises StorageError when it cannot be read, FormatError when it is not a run or of another format version.
    """
    target = Path(path).absolute()
    if not target.exists():
        raise StorageError(f"{target}: there is no such run directory or file")
    return Results(target / "run.h5" if target.is_dir() else target)


def _unknown(message: str, name: str, known: Iterable[str]) -> UnknownName:
    names = sorted(known)
    lines = [
        message,
        f"    expected: {', '.join(names)}" if names else "    expected: nothing: none was recorded",
    ]
    if hint := did_you_mean(name, names):
        lines.append(f"    hint:     {hint}")
    return UnknownName("\n".join(lines))
