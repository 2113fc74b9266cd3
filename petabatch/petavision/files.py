"""Files that a parameter file names: where they are looked for, and how a params file names them."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Files:
    """Places of files: the folder of the parameter file, those above it, and the working directory."""

    folder: Path
    """Folder of the parameter file."""
    target: Path | None = None
    """Folder of the params file that is written; None for absolute paths."""
    moved: Sequence[tuple[str, str]] = ()
    """Beginnings of paths and what is to be in their place, as `--path OLD=NEW` gives them."""
    checkpoint: Path | None = None
    """A checkpoint directory of PetaVision from which the network is to start."""
    missing: dict[str, None] = field(default_factory=dict)
    """Files that have not been found, as named, in this order."""

    def find(self, name: str) -> Path | None:
        """Return the path of a file, None if there is none.

        PetaVision's working directory is often the folder above that of the parameter file.
        """
        for old, new in self.moved:
            if name.startswith(old):
                moved = Path(new + name.removeprefix(old)).expanduser()
                if moved.exists():
                    return moved.absolute()
        path = Path(os.path.expanduser(name))
        places = [self.folder, self.folder.parent, Path()] if not path.is_absolute() else [Path()]
        for place in places:
            candidate = place / path
            if candidate.exists() or any(glob.iglob(glob.escape(str(candidate)))):
                return candidate.absolute()
        return None

    def named(self, name: str) -> str:
        """Return how the params file names a file; one that is missing keeps its name."""
        found = self.find(name)
        if found is None:
            self.missing[name] = None
            return name
        found = Path(os.path.normpath(found))
        if self.target is None:
            return str(found)
        relative = os.path.relpath(found, self.target.absolute())
        return relative if relative.count("..") <= 2 else str(found)
