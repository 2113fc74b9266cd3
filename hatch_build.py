"""Build hook: installed copies of petabatch know the commit that they were built from.

The commit is written to `petabatch/COMMIT` in the wheel and in the source distribution. A wheel that is built
from a source distribution takes over its file. A wheel with compiled kernels is one for a version of Python
and a platform.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):  # type: ignore[misc]
    """Adds the file with the commit, unless the package is installed in place."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file to a temporary folder, and have it included."""
        found = commit(Path(self.root))
        if version == "editable":
            return
        if Path(self.root, "petabatch", "kernels", "compiled").exists():
            build_data["pure_python"], build_data["infer_tag"] = False, True  # of wheels
        if found is None:
            return
        folder = tempfile.mkdtemp(prefix="petabatch-build-")
        self._file = Path(folder, "COMMIT")
        self._file.write_text(f"{found}\n", encoding="utf-8")
        build_data["force_include"][str(self._file)] = "petabatch/COMMIT"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary file."""
        if file := getattr(self, "_file", None):
            file.unlink()
            os.rmdir(file.parent)


def commit(root: Path) -> str | None:
    """Return the commit of the checkout `root`, with `+` if its package is modified; None without one."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if not (root / ".git").exists() or not (found := git("rev-parse", "HEAD")):
        return None
    return found if git("diff", "--quiet", "HEAD", "--", "petabatch") is not None else f"{found}+"
