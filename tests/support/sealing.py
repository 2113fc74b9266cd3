"""Seals of files that a test has changed, as whoever changes a file can change its checksum."""

from __future__ import annotations

import json
from pathlib import Path

from petabatch.storage.seal import read_json, recorded_run_id, seal, sealed_json


def reseal(path: Path, root: Path | None = None) -> None:
    """Give a file of the run in `root`, by default its folder, the seal of its present content."""
    run_id = recorded_run_id(root or path.parent)
    assert run_id is not None
    if path.suffix == ".json":
        path.write_text(sealed_json(read_json(path), run_id, path.name))
        return
    with path.open("r+b") as file:
        seal(file.fileno(), run_id)


def unsealed(path: Path) -> dict[str, object]:
    """Return what a JSON file of a run says, and take its seal away."""
    table = read_json(path)
    path.write_text(json.dumps(table))
    return table
