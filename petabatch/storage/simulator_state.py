"""States of simulators in files: their kind, and why no run goes on from one."""

from __future__ import annotations

import json
from pathlib import Path

import h5py

from petabatch.errors import FormatError
from petabatch.regular_files import regular

KIND = "simulator"
"""The kind of the file."""


def refuse_state(path: Path) -> None:
    """Raise FormatError if a file is the state of a simulator; the error names what was changed by hand."""
    try:
        with h5py.File(regular(path), "r") as file:
            if file.attrs.get("kind") != KIND:
                return
            changes = json.loads(file.attrs["changes"])
    except (OSError, LookupError, ValueError, TypeError):
        return  # it is no such file, or a damaged one
    changed = ", ".join(f"{name} (after step {step})" for name, step in changes.items())
    raise FormatError(
        f"{path}: this is the state of a simulator, which a run cannot go on from\n"
        f"    found:    {f'changed by hand: {changed}' if changed else 'nothing that was changed by hand'}\n"
        "    expected: a run directory, or a checkpoint in one\n"
        "    hint:     petabatch.Simulator(network).load(file) goes on from it"
    )
