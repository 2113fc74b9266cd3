"""One recorded array of a run, read lazily."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.arguments import checked, whole_number
from petabatch.clock import Clock
from petabatch.errors import ArgumentError, DamagedError, NotRecorded, StorageError, printable
from petabatch.pixels import curve
from petabatch.storage.containment import refuse_segment
from petabatch.storage.gaps import Gap, steps_text

_CURVE = 100_000
"""Recorded times of a curve in a notebook, at most."""


class Series:
    """One recorded array, read lazily: `series[i]` reads the i-th time, `series[...]` everything."""

    def __init__(
        self,
        file: Path,
        dataset: Any,
        display: int | None,
        gaps: Sequence[Gap],
        contained: set[tuple[Path, str]],
    ) -> None:
        """`contained` are segments, and names in them, known to refer to nothing outside of the run."""
        self._file, self._dataset, self._display, self._contained = file, dataset, display, contained
        self.gaps: tuple[Gap, ...] = tuple(gaps)
        """Steps of the run that are lost, each the first and last of a stretch."""
        self._steps = dataset.dims[0][0]
        self._read_steps: np.ndarray | None = None
        self._segments = {
            file.parent / source.file_name
            for source in (dataset.virtual_sources() if dataset.is_virtual else ())
        }
        self.name: str = str(dataset.name).lstrip("/")
        """Path in the file, such as `layers/V1/A`."""
        self.dims: tuple[str, ...] = tuple(dim.label for dim in dataset.dims)
        """Names of the axes, such as `("time", "batch", "y", "x", "feature")`."""
        self.shape: tuple[int, ...] = tuple(dataset.shape)
        """Lengths of the axes."""
        self.dtype: np.dtype[Any] = dataset.dtype
        """Type of the values."""

    @property
    def units(self) -> str:
        """Unit of the values; "1" if dimensionless."""
        return str(self._dataset.attrs["units"])

    @property
    def sparse(self) -> bool:
        """Whether most values are zero, as those of a code are."""
        return bool(self._dataset.attrs["sparse"])

    @property
    def missing(self) -> list[str]:
        """Names of the segments that hold the values but are missing."""
        return sorted(segment.name for segment in self._segments if not segment.exists())

    @property
    def description(self) -> str:
        """Description of the values."""
        return str(self._dataset.attrs.get("description", ""))

    @property
    def steps(self) -> np.ndarray:
        """The steps after which the values were recorded, int64 `[time]`."""
        self._check()
        if self._read_steps is None:
            try:
                self._read_steps = np.asarray(self._steps[()])
            except (OSError, RuntimeError) as error:
                raise self._damaged(error) from error
        return self._read_steps.copy()

    @property
    def display(self) -> int | None:
        """The display period in steps; None where the params do not tell."""
        return self._display

    @property
    def displays(self) -> np.ndarray:
        """The same in display periods, float64 `[time]`: 20.0 is the end of the 20th display."""
        return Clock(self._period()).displays(self.steps)

    @checked()
    def at(
        self, *, display: int | None = None, step: int | None = None, slice: int | None = None
    ) -> np.ndarray:
        """Return the values at the end of a display or a step, of one slice; by default all times and slices.

        Displays and steps count from 1; 0 is the state before step 1. A negative display or step counts the
        recorded times from the end: -1 is the last one. A negative slice counts from the end of the batch.
        Raises NotRecorded if there is no such time or slice, ArgumentError if one is not a number.
        """
        time = self.index(display=display, step=step)
        if slice is None:
            return self[... if time is None else time]
        axis = self.dims.index("batch") if "batch" in self.dims else None
        if axis is None:
            raise NotRecorded(
                f"{self.name} has no slices: one array belongs to all of them\n"
                f"    found:    slice={slice}\n    hint:     leave out `slice`"
            )
        return self[(np.s_[:] if time is None else time, slice_number(self.name, slice, self.shape[axis]))]

    @checked()
    def index(self, *, display: int | None = None, step: int | None = None) -> int | None:
        """Return the index of a recorded time, as `at` takes it; None if neither is given."""
        if display is not None and step is not None:
            both = f"display={display}, step={step}"
            raise ArgumentError(self.name, "the time is given twice", both, "either `display` or `step`")
        if display is None and step is None:
            return None
        name, given = ("display", display) if step is None else ("step", step)
        number = whole_number(name, given)
        if number < 0:
            if number < -len(self):
                raise self._not_recorded(f"{name} {number}", self.steps)
            return number + len(self)
        steps = self.steps
        wanted = Clock(self._period()).length(number) if step is None else number
        found = np.flatnonzero(steps == wanted)
        if not found.size:
            equal = f" (step {wanted})" if step is None else ""
            raise self._not_recorded(f"{name} {number}{equal}", steps, wanted)
        return int(found[0])

    def _period(self) -> int:
        if self._display is None:
            raise StorageError(f"{self._file}: the params in this file tell no display period")
        return self._display

    def _not_recorded(self, found: str, steps: np.ndarray, wanted: int | None = None) -> NotRecorded:
        lost = [gap for gap in self.gaps if wanted is not None and gap[0] <= wanted <= gap[1]]
        what = f"this time is lost, with {steps_text(lost)}" if lost else "this time was not recorded"
        lines = [f"{self.name}: {what}", f"    found:    {found}"]
        lines.append(f"    expected: {times(steps, self._display)}")
        if wanted is not None and steps.size:
            nearest = int(steps[np.abs(steps - wanted).argmin()])
            lines.append(f"    hint:     the nearest is {_in_displays(nearest, self._display)}")
        return NotRecorded("\n".join(lines))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        """Read with numpy's basic indexing; raises StorageError when a segment is missing or damaged."""
        self._check()
        if isinstance(key, int | np.integer) and not -len(self) <= key < len(self):
            raise NotRecorded(
                f"{self.name}: time {key} of {len(self)} records\n"
                f"    hint:     this index counts records; for displays, use .at(display={key})"
            )
        try:
            values = self._dataset[key]
        except (OSError, RuntimeError) as error:  # a checksum in HDF5
            raise self._damaged(error) from error
        except (IndexError, TypeError, ValueError) as error:
            raise NotRecorded(
                f"{self.name}: this part cannot be read: {error}\n    found:    {key!r}\n"
                f"    expected: numpy's basic indexing of {_axes(self.dims, self.shape)}\n"
                "    hint:     read everything first: series[...][key]"
            ) from None
        self._check()
        return np.asarray(values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[...], dtype=dtype)

    def __repr__(self) -> str:
        return printable(f"<{self.name} ({_axes(self.dims, self.shape)}) {self.dtype}>")

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the axes, and a curve of what slices have one number of."""
        head = f"<div><p>{escape(repr(self).strip('<>'))}</p>"
        if self.dims[1:] not in ((), ("batch",)) or not 1 < len(self) <= _CURVE:
            return f"{head}</div>"
        values = self[...].reshape(len(self), -1).astype(float)
        shown = values[np.isfinite(values).all(axis=1)].mean(axis=1)
        return f"{head}{curve(shown)}</div>" if len(shown) > 1 else f"{head}</div>"

    def _damaged(self, error: Exception) -> DamagedError:
        return DamagedError(
            f"{self._file}: {self.name} is damaged: {error}\n"
            f"    hint:     `petabatch verify {self._file.parent}` names the file and what is lost"
        )

    def _check(self) -> None:
        """Raise StorageError if the file was closed, if a segment is missing, or if it refers to other files.

        HDF5 would silently return fill values for a missing segment.
        """
        if not self._dataset:
            raise StorageError(
                f"{self._file}: the run is closed\n    found:    {self.name} read after `with` or close()\n"
                "    hint:     read inside of the `with` block, or copy: series[...]"
            )
        if missing := self.missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise StorageError(
                f"{self._file}: {self.name} cannot be read: segments are missing\n"
                f"    found:    no {', '.join(missing[:3])}{more} in {self._file.parent / 'parts'}\n"
                f"    hint:     if the run is still in progress, open it again; if run.h5 was copied, copy "
                f"parts/ as well, or use `petabatch merge` to make a self-contained file; if they are lost, "
                f"`petabatch verify --repair {self._file.parent}` makes an index without their steps"
            )
        for segment in self._segments:
            if (segment, self.name) not in self._contained:
                run_id = str(self._dataset.file.attrs.get("run_id", ""))
                refuse_segment(segment, self._file.parent, self.name, run_id)
                self._contained.add((segment, self.name))


def slice_number(name: str, given: int, batch: int) -> int:
    """Return the number of a slice, counted from 0; raises NotRecorded if the batch has no such slice."""
    number = whole_number("slice", given)
    if not -batch <= number < batch:
        raise NotRecorded(
            f"{name}: there is no such slice\n    found:    slice {number}\n"
            f"    expected: 0 to {batch - 1}, or {-batch} to -1 from the end"
        )
    return number % batch


def times(steps: Sequence[int] | np.ndarray, display: int | None) -> str:
    """Return recorded steps as a short list, in displays of several steps where they are whole ones."""
    values = [int(step) for step in steps]
    if not values:
        return "nothing: no time has been recorded yet"
    unit = "steps"
    clock = Clock(display or 1)
    if (display or 1) > 1 and all(clock.ends(step) for step in values):
        unit, values = "displays", [clock.complete(step) for step in values]
    shown = [*map(str, values)] if len(values) <= 6 else [*map(str, values[:3]), "...", str(values[-1])]
    return f"{unit if len(values) > 1 else unit.rstrip('s')} {', '.join(shown)}"


def _in_displays(step: int, display: int | None) -> str:
    clock = Clock(display or 1)
    whole = (display or 1) > 1 and clock.ends(step)
    return f"display {clock.complete(step)}" if whole else f"step {step}"


def _axes(dims: Sequence[str], shape: Sequence[int]) -> str:
    return ", ".join(f"{dim}: {length}" for dim, length in zip(dims, shape, strict=True))
