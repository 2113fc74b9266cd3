"""The cache of compiled kernels on disk: its place, and the invalidation of stale entries."""

from __future__ import annotations

import os
import re
import stat
import sys
import tempfile
from pathlib import Path
from zlib import crc32

from petabatch.errors import ResourceError

_PLACE = "NUMBA_CACHE_DIR"
_OURS = re.compile(r"kernels-[0-9a-f]{8}")


def invalidate_stale(folder: Path) -> None:
    """Choose where numba caches the kernels in `folder` and below; invalidate what is stale there.

    Numba keeps a compiled function while its own file is unchanged, even if a function that it calls has
    changed in another file. So every `__pycache__` is emptied of kernels when any source has changed; a
    cache elsewhere stands in a folder named after the sources. That is in `NUMBA_CACHE_DIR`, if it is set, or
    (where `__pycache__` cannot be written) in the user's cache, or below the directory for temporary files.
    Numba alone refuses to define a kernel where it finds no place, and fails where a disk is full.
    Raises ResourceError when there is no place at all.
    """
    files = sorted(folder.rglob("*.py"))
    state = f"{crc32(b''.join(file.read_bytes() for file in files)):08x}"
    caches = sorted({file.parent / "__pycache__" for file in files})
    given = os.environ.get(_PLACE, "")
    if not given and all(map(_writable, caches)):
        for cache in caches:
            drop_stale(cache, state)
        return
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    temporary = Path(tempfile.gettempdir(), f"petabatch-{os.getuid()}")
    places = (Path(given),) if given else (Path(user, "petabatch"), temporary)
    if _OURS.fullmatch(places[0].name):  # inherited from a process that has been here
        places = (places[0].parent,)
    possible = [place / f"kernels-{state}" for place in places]
    chosen = next((path for path in possible if _writable(path, _among_others(path.parent))), None)
    if chosen is None:
        tried = ", ".join(map(str, places if given else (caches[0], *places)))
        raise ResourceError(
            f"there is no place to keep compiled kernels\n"
            f"    found:    no permission to write, no room, or files of other users, in {tried}\n"
            f"    hint:     export {_PLACE}=/a/directory/of/yours"
        )
    os.environ[_PLACE] = str(chosen)  # numba reads it when it is imported
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(chosen)


def drop_stale(cache: Path, state: str) -> None:
    """Delete the compiled functions in `cache` unless they are of sources in this state."""
    mark = cache / "kernels.crc32"
    try:
        if mark.exists() and mark.read_text() == state:
            return
        for compiled in (*cache.glob("*.nbi"), *cache.glob("*.nbc")):
            compiled.unlink(missing_ok=True)
        mark.write_text(state)
    except OSError:
        return


def _writable(folder: Path, private: bool = False) -> bool:
    """Return whether files can be written in a folder, which is created if it is missing.

    With `private`, the folder that holds it must be one in which only this user can write.
    """
    try:
        if private:
            folder.parent.mkdir(0o700, parents=True, exist_ok=True)
            about = folder.parent.stat()
            if about.st_uid != os.getuid() or about.st_mode & 0o022:
                return False  # other users could put code there
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
    except OSError:
        return False
    return True


def _among_others(place: Path) -> bool:
    """Return whether every user can make this folder, as below the directory for temporary files."""
    place = place.resolve()
    return any(path.exists() and path.stat().st_mode & stat.S_IWOTH for path in (place, *place.parents))
