"""Runs as xarray opens them: `xarray.open_datatree("runs/first")`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from xarray.backends import BackendEntrypoint

from petabatch.storage.files import RUN_FILES


class Runs(BackendEntrypoint):  # type: ignore[misc]
    """Run directories; xarray finds it by the entry point in pyproject.toml."""

    description = "Open the directory of a run of petabatch"
    url = ""
    supports_groups = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether it is the directory of a run."""
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        return any(Path(filename_or_obj, name).exists() for name in RUN_FILES)

    def open_datatree(self, filename_or_obj: Any, *, drop_variables: Any = None, **keys: Any) -> Any:
        """Return the run as a lazy tree, as `Results.to_xarray` does."""
        from petabatch.results import open

        tree = open(filename_or_obj).to_xarray()
        return (
            tree
            if drop_variables is None
            else tree.map_over_datasets(lambda node: node.drop_vars(drop_variables, errors="ignore"))
        )

    def open_dataset(self, filename_or_obj: Any, *, drop_variables: Any = None) -> Any:
        """Raise the error that says what to call."""
        raise ValueError(f"{filename_or_obj}: a run is a tree: xarray.open_datatree(...)")
