"""Compiled kernels on disk that are no longer those of the source."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32


def drop_stale(folder: Path) -> None:
    """Delete what numba compiled of the functions in `folder`, if any file there has changed since.

    Numba keeps a compiled function while its own file is unchanged, also when one that it calls is in another
    file that has changed. Where the folder cannot be written nothing is done: numba's files are elsewhere.
    """
    sources = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    cache, now = folder / "__pycache__", f"{crc32(sources):08x}"
    mark = cache / "kernels.crc32"
    try:
        if mark.exists() and mark.read_text() == now:
            return
        for compiled in (*cache.glob("*.nbi"), *cache.glob("*.nbc")):
            compiled.unlink(missing_ok=True)
        cache.mkdir(exist_ok=True)
        mark.write_text(now)
    except OSError:
        return
