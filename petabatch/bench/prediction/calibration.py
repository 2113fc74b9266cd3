"""A calibration: times of one network on one machine, as a JSON file that can be used again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from petabatch.errors import ArgumentError, InputError, Problem
from petabatch.network.possible_parts import AXES, Axis
from petabatch.parallel.consistency import fingerprint
from petabatch.regular_files import read_text
from petabatch.spec.load import resolved
from petabatch.spec.network import Network, Parallel
from petabatch.version import __version__

Time = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_FREE = ("batch", "displays", "steps", "reduce", "threads", "wall_limit", "stuck_after")
"""Keys of `[run]` that a calibration does not depend on."""


@dataclass(frozen=True)
class PartTimes:
    """Step times of parts of a slice, for numbers of parts that split the same layers."""

    numbers: list[int]
    """All numbers of parts that are alike in this."""
    measured: Annotated[dict[int, Time], Field(min_length=1)]
    """What the steps of a part take of the time of the whole, by some of these numbers."""

    def at(self, parts: int) -> float:
        """Return what the steps of one of `parts` parts take of the time of the whole.

        A line in 1 / parts through what was measured: some of each step is the same on all ranks.
        """
        (few, slow), *more = sorted(self.measured.items())
        many, fast = more[-1] if more else (1, 1.0)
        slope = max(0.0, (slow - fast) / (1 / few - 1 / many))
        return max(0.0, slow - slope / few) + slope / parts


@dataclass(frozen=True)
class Calibration:
    """Seconds of one rank with one process to itself."""

    network: str
    """Hash of the params that its times depend on."""
    title: str
    threads: int
    slices: Annotated[list[Annotated[list[Time], Field(min_length=1)]], Field(min_length=1)]
    """Of a step of each slice, in each display: `[display][slice]`."""
    image: Time
    """Of a slice in each display: showing an image, without waiting for it to be read."""
    learning: Time
    """Of a slice in each change of weights: the product of its activities."""
    recording: Time
    """Of a slice for each row that it records: probes and output."""
    update: Time
    """Of an update of weights that all slices share, whatever their number."""
    update_slice: Time
    """What each slice adds to it: its part of the exact sum."""
    event: Time
    """Of a meeting of all slices: starting lanes, and waiting for the last."""
    addition: Time
    """Of adding one byte of 64-bit integers."""
    reduction: Time | None
    """Until an MPI reduction has started; None without mpi4py."""
    part_times: dict[Axis, list[PartTimes]]
    """Those of the steps of parts of a slice, as far as they were measured."""
    machine: dict[str, Any]

    def part(self, parallel: Parallel) -> float | None:
        """Return what the steps of a part take of the time of the whole; None if none alike was measured."""
        found = [self._along(axis, getattr(parallel, axis)) for axis in AXES]
        known = [share for share in found if share is not None]
        return math.prod(known) if len(known) == len(found) else None

    def _along(self, axis: Axis, parts: int) -> float | None:
        if parts == 1:
            return 1.0
        alike = (one for one in self.part_times.get(axis, ()) if parts in one.numbers)
        return next((one.at(parts) for one in alike), None)

    def save(self, path: Path) -> None:
        """Write it as JSON; raises InputError where that cannot be done."""
        try:
            path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: the calibration cannot be written: {error.strerror}") from error


def load(path: Path, network: Network, threads: int | None) -> Calibration:
    """Return the calibration in a file.

    Raises InputError if the file is none, ArgumentError if it is of another network or number of threads.
    """
    try:
        found = TypeAdapter(Calibration).validate_json(read_text(path))
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise _unusable(path, _reason(error)) from error
    if (version := found.machine.get("petabatch", __version__)) != __version__:
        raise _unusable(path, f"version {version}")
    expected = identify(network)
    if found.network != expected:
        raise ArgumentError(
            "--calibration",
            f"{path} is a calibration of another network",
            f"{found.title}, {found.network}",
            f"params with the hash {expected}; the batch and the length of the run may differ",
            "give the name of a new file, and this network is measured",
        )
    if threads is not None and found.threads != threads:
        raise ArgumentError(
            "--threads",
            f"{path} is a calibration with another number of threads",
            threads,
            str(found.threads),
            "give the name of a new file, or leave --threads away",
        )
    return found


def _unusable(path: Path, found: str) -> InputError:
    problem = Problem(
        "", "this is not a calibration of this version", found,
        "a file written by --calibration", "give the name of a new file, and this network is measured",
    )  # fmt: skip
    return InputError(problem.render(str(path)))


def _reason(error: OSError | UnicodeDecodeError | ValidationError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return ".".join(map(str, first["loc"])) + ": " * bool(first["loc"]) + first["msg"]
    return getattr(error, "strerror", None) or str(error)


def identify(network: Network) -> str:
    """Return a hash of the params on which the times of a network depend."""
    params: Mapping[str, Any] = resolved(network)
    left_out = ("title", "checkpoint", "parallel", "evaluate")
    kept = {key: value for key, value in params.items() if key not in left_out}
    kept["run"] = {key: value for key, value in params["run"].items() if key not in _FREE}
    return fingerprint(json.dumps(kept, sort_keys=True))
