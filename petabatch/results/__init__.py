"""Reading of runs: `petabatch.open("runs/first")`. Needs only h5py, not the simulator."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np

from petabatch.arguments import whole_number
from petabatch.errors import (
    ArgumentError,
    DamagedError,
    FormatError,
    NotRecorded,
    Problem,
    ResourceError,
    StorageError,
    did_you_mean,
    install,
    printable,
    similar_path,
)
from petabatch.errors import UnknownName as UnknownName
from petabatch.results.notebook import as_html
from petabatch.results.series import Series, slice_number
from petabatch.results.sparse_code import sparse_code
from petabatch.results.traced import ShownImage, display_period, traced
from petabatch.results.use import use_of
from petabatch.storage import FORMAT, JSON_ATTRIBUTES, READABLE, manifest
from petabatch.storage.containment import is_segment, refuse_links, refuse_references
from petabatch.storage.damaged import naming_damage
from petabatch.storage.gaps import steps_text


class Results:
    """A run file, open for reading; a context manager. Data are read on access.

    `run["layers/V1/A"]` is a recorded array; `list(run)` the names of all.
    """

    def __init__(self, file: Path) -> None:
        self.path = file
        self._verify()
        try:
            self._file = h5py.File(file, "r")
        except (OSError, RuntimeError) as error:
            raise StorageError(f"{file}: the run file cannot be read: {error}") from error
        try:
            with naming_damage(file):
                self._check()
        except StorageError:
            self._file.close()
            raise
        self._contained: set[tuple[Path, str]] = set()
        """Segments, and names in them, that are known to refer to nothing outside of the run."""
        self._series: dict[str, Series] = {}
        """Recorded arrays that have been asked for; the file does not change while it is open."""

    def _check(self) -> None:
        """Raise FormatError or StorageError if this is no run file, or if it refers to other files."""
        found = self._file.attrs.get("petabatch_format"), self._file.attrs.get("kind")
        if found[0] not in READABLE or found[1] != "run":
            raise FormatError(
                f"{self.path}: not a run file of this version of petabatch\n"
                f"    found:    format {found[0]}, kind {found[1]}\n    expected: format {FORMAT}, kind run"
            )
        refuse_references(self._file, is_segment)

    def _verify(self) -> None:
        try:
            manifest.verify(self.path.parent, self.path.name)
        except DamagedError as error:
            raise DamagedError(
                f"{error}\n    hint:     `petabatch verify --repair {self.path.parent}` rebuilds it"
            ) from None

    def __enter__(self) -> Results:
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

    def label(self, slice: int) -> str:
        """Return what tells a slice from others: `threshold 0.3, slice 1`, or `slice 5` in a plain batch.

        Raises NotRecorded if there is no such slice; a negative one counts from the end of the batch.
        """
        slice = slice_number(str(self.path), slice, self.batch)
        values = {name: column for name, column in self.coordinates.items() if name not in ("point", "slice")}
        found = [f"{name} {column[slice]:.6g}" for name, column in values.items()]
        alike = sum(
            all(column[other] == column[slice] for column in values.values()) for other in range(self.batch)
        )
        if alike > 1 or not found:
            number = self.coordinates["slice"][slice] if "slice" in self.coordinates else slice
            found.append(f"slice {number}")
        return ", ".join(found)

    def names(self) -> list[str]:
        """Return the paths of all recorded arrays, such as `layers/V1/A`."""
        return list(self._names)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        found: list[str] = []

        def visit(path: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and "sparse" in item.attrs:
                found.append(path)

        with naming_damage(self.path):
            self._open_file().visititems(visit)
        return tuple(found)

    def __getitem__(self, name: str) -> Series:
        """Return a recorded array by its path, such as `layers/V1/A`; raises UnknownName."""
        names = self.names()
        if name not in names:
            within = [place for place in names if str(name) in place.split("/")]
            raise _unknown(f"{self.path}: {name} was not recorded", name, names, within)
        with naming_damage(self.path):
            file = self._open_file()
            if name not in self._series:
                self._series[name] = Series(self.path, file[name], self.display, self.gaps, self._contained)
            return self._series[name]

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __repr__(self) -> str:
        if not self._file:
            return printable(f"<petabatch run {self.path}: closed>")
        lost = f", without {steps_text(self.gaps)}, which are lost" if self.gaps else ""
        head = f"<petabatch run {self.path}: {self.status}, {self._progress()}, batch {self.batch}{lost}>"
        return printable("\n".join([head, *(f"  {repr(self[name])[1:-1]}" for name in self)]))

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the run, its dictionary and what was recorded."""
        return as_html(repr(self), [self[name] for name in self] if self._file else [])

    def layer(self, name: str, variable: str = "A") -> Series:
        """Return a variable of a layer, `[time, batch, y, x, feature]`; `A` is the activity."""
        members = self._members("layers", "layer", name)
        if variable not in members:
            raise _unknown(f"{self.path}: {variable} of layer {name} was not recorded", variable, members)
        return self[f"layers/{name}/{variable}"]

    def weights(self, name: str) -> Series:
        """Return the weights of a connection; the first axis is time."""
        self._members("connections", "connection", name)
        return self[f"connections/{name}/weights"]

    def probe(self, name: str) -> dict[str, Series]:
        """Return the quantities that a probe measured, each `[step, batch]`."""
        quantities = self._members("probes", "probe", name)
        return _Quantities(self.path, name, {q: self[f"probes/{name}/{q}"] for q in quantities})

    def codes(
        self,
        name: str,
        *,
        display: int | None = None,
        step: int | None = None,
        time: int = -1,
        slice: int = 0,
    ) -> Any:
        """Return the code of a layer as a `scipy.sparse.csr_array` `[y * x, feature]`.

        The time is a `display` or a `step` as for `Series.at`, or else `time`, an index into the recorded
        times, from the end if negative. `slice` is the global slice number, from the end if negative.
        """
        return sparse_code(self.layer(name), time, slice, display, step)

    def images(
        self,
        layer: str | None = None,
        *,
        display: int | None = None,
        step: int | None = None,
        slice: int | None = None,
    ) -> np.ndarray:
        """Return the images that slices saw, `[slice, y, x, channel]`; of one slice `[y, x, channel]`.

        By default of the first input layer that was recorded, at the last recorded time; `display`, `step`
        and `slice` are as for `Series.at`. Where images were not recorded, `shown` names their files.
        """
        if layer is None:
            tables = self.params.get("layers", {})
            inputs = [name for name in tables if tables[name].get("type") == "input"]
            known = [name for name in inputs if f"layers/{name}/A" in self]
            if not known:
                raise NotRecorded(
                    f"{self.path}: no images were recorded\n    found:    input layers {', '.join(inputs)}\n"
                    "    hint:     record one in [output.layers]; run.shown(...) names the files"
                )
            layer = known[0]
        last = -1 if display is None and step is None else step
        return self.layer(layer).at(display=display, step=last, slice=slice)

    def shown(
        self, layer: str, *, display: int | None = None, step: int | None = None, slice: int = 0
    ) -> ShownImage:
        """Return the image that a slice saw in an input layer: its file, frame and crop.

        The time is a `display`, counted from 1, or any `step` of it, such as that of a probe's value; -1 is
        the last one. `slice` is the global slice number, from the end if negative.
        """
        self._members("inputs", "input layer", layer)
        item, frame, crop = (self[f"inputs/{layer}/{name}"] for name in ShownImage._fields[2:])
        if (display is None) == (step is None):
            raise ArgumentError("display", "the time must be given once", None, "`display` or `step`")
        time = whole_number("step" if display is None else "display", step if display is None else display)
        if time < 0:
            time = int(item.steps[item.index(display=display, step=step)])
        elif display is not None:
            time *= self.display or 0
        period = display_period(self.params, layer, self.display or 1)
        group = self._open_file()[f"inputs/{layer}"]
        return traced(group, item, frame, crop, time, slice, period)

    def files(self, layer: str) -> list[str]:
        """Return the files of the items that an input layer shows, in order."""
        self._members("inputs", "input layer", layer)
        group = self._open_file()[f"inputs/{layer}"]
        return list(group["files"].asstr(errors="surrogateescape")[()]) if "files" in group else []

    def use(self, layer: str, last: int | None = 10) -> np.ndarray:
        """Return the fraction of active units of each feature of a code layer, `[feature]`; 0 is a dead one.

        Over the ends of the `last` displays that were recorded, all with None; at most the latest 256 MiB of
        codes are read.
        """
        return use_of(self.layer(layer), last)

    def to_xarray(self) -> Any:
        """Return the whole file as a lazy `xarray.DataTree`; needs the `analysis` extra."""
        for place in self.names():
            self[place]._check()
        try:
            import xarray

            return xarray.open_datatree(self.path, engine="h5netcdf")
        except (
            ImportError,
            ValueError,
        ) as error:  # xarray raises ValueError for an engine that is not installed
            raise ResourceError(
                f"xarray or h5netcdf is not installed ({error})\n    hint:     {install('analysis')}"
            ) from error

    @cached_property
    def display(self) -> int | None:
        """The display period in steps, None where the params do not tell."""
        period = self.params.get("run", {}).get("display")
        return None if period is None else int(period)

    def _progress(self) -> str:
        run = self.params.get("run", {})
        if not run.get("displays"):
            return f"step {self.steps_reached} of {run.get('steps', '?')}"
        return f"display {self.steps_reached // run['display']} of {run['displays']}"

    def _members(self, folder: str, kind: str, name: str) -> list[str]:
        places = [place.split("/") for place in self.names() if place.startswith(f"{folder}/")]
        members = [place[2] for place in places if place[1] == name]
        if not members:
            recorded = {place[1] for place in places}
            raise _unknown(f"{self.path}: no {kind} named {name} was recorded", name, recorded)
        return members


class _Quantities(dict[str, Series]):
    """The quantities of a probe, by name."""

    def __init__(self, file: Path, probe: str, found: Mapping[str, Series]) -> None:
        super().__init__(found)
        self._file, self._probe = file, probe

    def __missing__(self, name: str) -> Series:
        raise _unknown(f"{self._file}: probe {self._probe} does not measure {name}", name, self)


def open(path: str | os.PathLike[str]) -> Results:
    """Open a run: its directory, its `run.h5`, or a file made by `petabatch merge`.

    Raises StorageError when it cannot be read, FormatError when it is not a run or of another format version.
    """
    target = Path(path).absolute()
    if not target.exists():
        hint = similar_path(target, lambda path: path.is_dir() or path.suffix == ".h5")
        problem = Problem("", "there is no such run directory or file", hint=hint)
        raise StorageError(problem.render(str(target)))
    if target.is_dir():
        refuse_links(target)
        if not (target / "run.h5").exists() and not (target / "parts").is_dir():
            raise StorageError(f"{target}: this is not a run directory: it has no run.h5")
    elif not h5py.is_hdf5(target):
        hint = f"petabatch check {path} describes a params file" if target.suffix in (".toml", ".py") else ""
        problem = Problem("", "this is not a run file: it is not in HDF5", hint=hint)
        raise FormatError(problem.render(str(target)))
    return Results(target / "run.h5" if target.is_dir() else target)


def _unknown(message: str, name: str, known: Iterable[str], near: Iterable[str] = ()) -> UnknownName:
    """Return the error; `near` are the names to suggest, by default the most similar one."""
    names = sorted(known)
    lines = [
        message,
        f"    expected: {', '.join(names)}" if names else "    expected: nothing: none was recorded",
    ]
    if hint := next(iter(near), ""):
        lines.append(f"    hint:     did you mean {hint}?")
    elif hint := did_you_mean(str(name), names):
        lines.append(f"    hint:     {hint}")
    return UnknownName("\n".join(lines))
