"""Reading of runs: `petabatch.open("runs/first")`. Needs only h5py, not the simulator."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.arguments import checked, whole_number
from petabatch.clock import Clock
from petabatch.errors import MISSING, ArgumentError, NotRecorded, ResourceError, install, printable
from petabatch.errors import UnknownName as UnknownName
from petabatch.results.events import GROUP, ActivityOfEvents
from petabatch.results.names import Quantities, members, recorded, unknown
from petabatch.results.notebook import as_html
from petabatch.results.run_file import RunFile, find
from petabatch.results.series import Series, slice_number
from petabatch.results.sparse_code import sparse_code
from petabatch.results.spikes import Spikes, spikes_of
from petabatch.results.synapses import Between, SynapseTable, table_of
from petabatch.results.traced import ShownImage, display_period, traced
from petabatch.results.use import use_of
from petabatch.storage.damaged import naming_damage
from petabatch.storage.gaps import steps_text
from petabatch.storage.seal import KEY


class Results(RunFile):
    """A run file, open for reading; a context manager. Data are read on access.

    `run["layers/V1/A"]` is a recorded array; `list(run)` the names of all.
    """

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._contained: set[tuple[Path, str]] = set()
        """Segments, and names in them, that are known to refer to nothing outside of the run."""
        self._series: dict[str, Series] = {}
        """Recorded arrays that have been asked for; the file does not change while it is open."""

    def names(self) -> list[str]:
        """Return the paths of all recorded arrays, such as `layers/V1/A`."""
        return list(self._names)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        with naming_damage(self.path):
            found = recorded(self._open_file())
        layers = dict.fromkeys(name.split("/")[1] for name in found if name.startswith(f"{GROUP}/"))
        return (*(name for layer in layers if (name := f"layers/{layer}/A") not in found), *found)

    def __getitem__(self, name: str) -> Series:
        """Return a recorded array by its path, such as `layers/V1/A`; raises UnknownName."""
        names = self.names()
        if not isinstance(name, str) or name not in names:
            within = [place for place in names if str(name) in place.split("/")]
            raise unknown(f"{self.path}: {name} was not recorded", name, names, within)
        with naming_damage(self.path):
            file = self._open_file()
            if name not in self._series and name not in file:
                self._series[name] = self._activity_of_events(name.split("/")[1])
            elif name not in self._series:
                self._series[name] = Series(self.path, file[name], self.display, self.gaps, self._contained)
            return self._series[name]

    def _activity_of_events(self, layer: str) -> ActivityOfEvents:
        """Return the activity of a layer whose spikes were recorded as events."""
        units, slices = (self[f"{GROUP}/{layer}/{column}"] for column in ("unit", "slice"))
        shape = (self.batch, *self.params["layers"][layer]["shape"])
        return ActivityOfEvents(units, slices, shape, self.steps_reached)

    def _ipython_key_completions_(self) -> list[str]:
        """Return what a notebook completes `run["` with."""
        return self.names() if self._file else []

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.names()

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

    @checked()
    def layer(self, name: str, variable: str = "A") -> Series:
        """Return a variable of a layer, `[time, batch, y, x, feature]`; `A` is the activity."""
        members = self._members("layers", "layer", name)
        if variable not in members:
            raise unknown(f"{self.path}: {variable} of layer {name} was not recorded", variable, members)
        return self[f"layers/{name}/{variable}"]

    @checked()
    def spikes(self, layer: str, *, slice: int = 0) -> Spikes:
        """Return the spikes of a layer in one slice as events, with rates of units and intervals.

        They, or its activity in each step, must have been recorded. `slice` is the global slice number, from
        the end if negative; those of all are `[run.spikes(layer, slice=n) for n in range(run.batch)]`.
        Raises NotRecorded where there are no spikes of all steps.
        """
        events = f"{GROUP}/{layer}/unit" in self
        series = self._activity_of_events(layer) if events else self.layer(layer)
        number = slice_number(series.name, slice, self.batch)
        same = np.full(self.batch, self.params.get("run", {}).get("dt", 1.0))
        dt = float(self.coordinates.get("dt", same)[number])
        among = f" of {self.batch:,} slices" if self.batch > 1 else ""
        return spikes_of(series, number, f"layer {layer}, {self.label(number)}{among}", dt)

    @checked()
    def weights(self, name: str) -> Series:
        """Return the weights of a connection; the first axis is time."""
        self._members("connections", "connection", name)
        return self[f"connections/{name}/weights"]

    @checked()
    def synapses(
        self, name: str, *, display: int | None = None, step: int | None = None, slice: int = 0
    ) -> SynapseTable:
        """Return the single synapses of a connection in one slice: pre and post units, weights and delays.

        The weights are those of a `display` or a `step`, as for `Series.at`, by default the last that were
        recorded. Which synapses there are was recorded with them, before step 1 and at the end of the run.
        `slice` is the global slice number, from the end if negative. Raises NotRecorded where the connection
        has no single synapses, or they were not recorded.
        """
        names = self._members("connections", "connection", name)
        folder = f"connections/{name}"
        if "starts" not in names:
            raise NotRecorded(
                f"{self.path}: {name} has no single synapses\n    found:    {', '.join(names)}\n"
                "    expected: weights of a connection of type sparse; run.weights(...) has those of patches"
            )
        number, series = slice_number(folder, slice, self.batch), self[f"{folder}/weights"]
        at = series.index(display=display, step=step)
        if not len(series) or not len(self[f"{folder}/starts"]):
            raise NotRecorded(
                f"{folder}: nothing has been recorded yet\n"
                "    hint:     synapses are recorded before step 1 and at the end of the run"
            )
        made = int(series.steps[-1 if at is None else at])
        found = [_of_slice(series, -1 if at is None else at, number)]
        for leaf in ("starts", "targets", *(["delays"] if "delays" in names else [])):
            steps = self[f"{folder}/{leaf}"].steps
            before = max(0, int(np.searchsorted(steps, made, "right")) - 1)
            found.append(_of_slice(self[f"{folder}/{leaf}"], before, number))
        weights, starts, targets, *late = found
        table, layers = self.params["connections"][name], self.params["layers"]
        pre, post = (tuple(layers[table[end]]["shape"]) for end in ("pre", "post"))
        same = np.full(self.batch, self.params.get("run", {}).get("dt", 1.0))
        dt = float(self.coordinates.get("dt", same)[number])
        return table_of(
            Between(pre, post, table["mode"]), starts, targets, weights, late[0] if late else None, dt, made,
            f"connection {name}, {self.label(number)}",
        )  # fmt: skip

    @checked()
    def probe(self, name: str) -> dict[str, Series]:
        """Return the quantities that a probe measured, each `[step, batch]`."""
        quantities = self._members("probes", "probe", name)
        return Quantities(self.path, name, {q: self[f"probes/{name}/{q}"] for q in quantities})

    @checked()
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

    @checked()
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

    @checked()
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
            raise ArgumentError("display", "the time must be given once", MISSING, "`display` or `step`")
        time = whole_number("step" if display is None else "display", step if display is None else display)
        if time < 0:
            time = int(item.steps[item.index(display=display, step=step)])
        elif display is not None:
            time = Clock(self.display or 0).length(time)
        period = display_period(self.params, layer, self.display or 1)
        group = self._open_file()[f"inputs/{layer}"]
        return traced(group, item, frame, crop, time, slice, period)

    @checked()
    def files(self, layer: str) -> list[str]:
        """Return the files of the items that an input layer shows, in order."""
        self._members("inputs", "input layer", layer)
        group = self._open_file()[f"inputs/{layer}"]
        return list(group["files"].asstr(errors="surrogateescape")[()]) if "files" in group else []

    @checked()
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
            engine = "h5netcdf"
            import xarray

            source, engine = self._datatree_source()
            tree = xarray.open_datatree(source, engine=engine)
        except (
            ImportError,
            ValueError,
        ) as error:  # xarray raises ValueError for an engine that is not installed
            raise ResourceError(
                f"xarray or its engine {engine} is not installed ({error})\n"
                f"    hint:     {install('analysis')}"
            ) from error
        tree.attrs.pop(KEY, None)
        for node in tree.subtree:
            for variable in node.variables.values():  # plots of xarray are labelled by these
                if variable.attrs.get("units") == "1":
                    del variable.attrs["units"]
                if "description" in variable.attrs:
                    variable.attrs.setdefault("long_name", variable.attrs["description"])
        return tree

    def _datatree_source(self) -> tuple[Any, str]:
        """Return what xarray opens, and with what engine."""
        return self._format.for_xarray(self._open_file())

    def _progress(self) -> str:
        run = self.params.get("run", {})
        if not run.get("displays"):
            return f"step {self.steps_reached} of {run.get('steps', '?')}"
        return f"display {Clock(run['display']).complete(self.steps_reached)} of {run['displays']}"

    def _members(self, folder: str, kind: str, name: str) -> list[str]:
        return members(self.path, self._names, folder, kind, name)


def _of_slice(series: Series, time: int, number: int) -> np.ndarray:
    """Return the values of a slice at a recorded time, or those that all slices have."""
    return series[time, number] if "batch" in series.dims else series[time]


@checked()
def open(path: str | os.PathLike[str]) -> Results:
    """Open a run for reading, also while it continues.

    Parameters
    ----------
    path
        Its directory, its `run.h5`, or a file made by `petabatch merge`.

    Returns
    -------
    Results
        The run; data are read when they are indexed.

    Raises
    ------
    StorageError
        If it cannot be read.
    FormatError
        If it is not a run, or of another format version.

    Examples
    --------
    >>> with petabatch.open("runs/natural_images") as run:
    ...     code = run["layers/V1/A"].at(display=1, slice=0)
    >>> code.ndim
    3
    """
    return Results(find(path))
