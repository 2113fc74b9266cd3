"""Python params files, which define `network`."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from petabatch.errors import ParamsError, Problem, TableError
from petabatch.spec.network import Network
from petabatch.spec.plugins import importing_from, line_in
from petabatch.spec.source_location import SourceLocation

_MODULE = "<params file>"
"""`__module__` of the classes that a Python params file defines."""


def run_python(path: Path) -> Network:
    """Run a Python file and return its `network`; raises ParamsError with the line of the error."""
    location = SourceLocation(str(path))
    try:
        with importing_from(path.parent):
            network = runpy.run_path(str(path), run_name=_MODULE).get("network")
    except TableError as error:
        line = line_in(str(path), error)
        raise location.error(
            replace(problem, key=f"{error.file}.{problem.key}".rstrip("."), line=line)
            for problem in error.problems
        ) from None
    except ParamsError:
        raise
    except Exception as error:
        problem = Problem("", f"{type(error).__name__}: {error}", line=line_in(str(path), error))
        raise location.error([problem]) from error
    if not isinstance(network, Network):
        hint = "network = petabatch.Network(run=..., layers=..., connections=...)"
        raise location.error(
            [Problem("", "this file defines no `network`", type(network).__name__, "a Network", hint)]
        )
    return network


def tables(value: Any) -> Any:
    """Return models as dictionaries of the keys that were given, with arrays and objects as they are."""
    if isinstance(value, BaseModel):
        written = {"type", *value.model_fields_set}
        return {name: tables(getattr(value, name)) for name in type(value).model_fields if name in written}
    if isinstance(value, dict):
        return {key: tables(item) for key, item in value.items()}
    return value


def defines_parts(value: Any) -> bool:
    """Return whether a network has parts whose classes are defined in its own Python file."""
    if isinstance(value, BaseModel):
        inside = [getattr(value, name) for name in type(value).model_fields]
        return type(value).__module__ == _MODULE or any(map(defines_parts, inside))
    inside = list(value.values()) if isinstance(value, dict) else value
    return isinstance(inside, list | tuple) and any(map(defines_parts, inside))
