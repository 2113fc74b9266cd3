"""What a probe of a plug-in has measured: an error that says what is expected, where it is something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from petabatch.arrays import described, is_array
from petabatch.errors import PartError
from petabatch.spec.model import is_built_in
from petabatch.spec.part_errors import declared
from petabatch.spec.parts import Probe
from petabatch.variable import host


def check_measured(probe: Probe, key: str, found: Any, lanes: int) -> None:
    """Raise PartError unless `measure` has returned each quantity of a plug-in as `[lanes]` numbers."""
    if is_built_in(type(probe)):
        return
    wanted = list(probe.quantities())
    if not isinstance(found, Mapping):
        raise _error(probe, key, wanted, lanes, _what(found))
    if missing := [name for name in wanted if name not in found]:
        raise _error(probe, key, wanted, lanes, f"no {', '.join(missing)}")
    for name in wanted:
        if not _is_right(found[name], lanes):
            raise _error(probe, key, wanted, lanes, f"{name}: {_what(found[name])}")


def _is_right(values: Any, lanes: int) -> bool:
    if not (is_array(values) or isinstance(values, list)):
        return False
    array = host(values)
    return array.dtype.kind in "buif" and array.shape == (lanes,)


def _what(value: Any) -> str:
    return str(described(value)) if is_array(value) else type(value).__name__


def _error(probe: Probe, key: str, wanted: list[str], lanes: int, found: str) -> PartError:
    return PartError(
        f"{declared(type(probe).measure)}{key}: `measure` of the plug-in type {probe.type} has not returned "
        f"its quantities\n    found:    {found}\n"
        f"    expected: by name an array of {lanes} numbers, one of each slice: {', '.join(wanted)}"
    )
