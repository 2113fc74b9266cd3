"""A run in Zarr, seen as the HDF5 file of a run: what `Results` asks of h5py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.errors import ResourceError, install
from petabatch.storage.damaged import naming_damage
from petabatch.storage.seal import KEY


class Node:
    """A group or an array."""

    def __init__(self, store: Store, path: str, node: Any) -> None:
        self._store, self._path, self._node = store, path, node
        self.name = f"/{path}"

    def __bool__(self) -> bool:
        return self._store.is_open

    @cached_property
    def attrs(self) -> Mapping[str, Any]:
        """Its attributes."""
        return {name: value for name, value in self._node.attrs.asdict().items() if name != KEY}


class Group(Node):
    """A group."""

    def __getitem__(self, path: str) -> Any:
        return self._store.at(f"{self._path}/{path}".strip("/"))

    def __contains__(self, path: str) -> bool:
        return f"{self._path}/{path}".strip("/") in self._store.paths

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield what is in it, by name."""
        yield from ((name, self[name]) for name in self._store.paths_in(self._path) if "/" not in name)

    def visititems(self, visit: Callable[[str, Any], None]) -> None:
        """Call a function for all that is in it and in its groups."""
        for name in self._store.paths_in(self._path):
            visit(name, self[name])


class Store(Group):
    """A whole store, open for reading."""

    def __init__(self, path: Path) -> None:
        """Open a store; raises ResourceError where the extra is missing, DamagedError where it is damaged."""
        self.is_open, self._known = True, dict[str, Node]()
        with naming_damage(path):
            self.source = _whole(path)
            self._zarr = import_module("zarr")
            root = self._zarr.open_group(self.source, mode="r", use_consolidated=True)
            metadata = root.metadata.consolidated_metadata.flattened_metadata
        self.paths = frozenset(metadata)
        super().__init__(self, "", root)

    def paths_in(self, group: str) -> list[str]:
        """Return the paths of all that is in a group, from there, in order."""
        below = f"{group}/" if group else ""
        return sorted(path.removeprefix(below) for path in self.paths if path.startswith(below))

    def at(self, path: str) -> Node:
        """Return a group or an array."""
        if path not in self.paths:
            raise KeyError(path)
        if path not in self._known:
            node = self._node[path]
            kind = Array if isinstance(node, self._zarr.Array) else Group
            self._known[path] = kind(self, path, node)
        return self._known[path]

    def close(self) -> None:
        """Read no more."""
        self.is_open = False


class Dimension:
    """A dimension of an array, with its coordinate."""

    def __init__(self, store: Store, folder: str, label: str) -> None:
        self._store, self._folder, self.label = store, folder, label

    def __getitem__(self, number: int) -> Node:
        beside = f"{self._folder}/{self.label}".strip("/")
        return self._store.at(beside if beside in self._store.paths else self.label)


class Array(Node):
    """An array."""

    is_virtual = False

    def __init__(self, store: Store, path: str, node: Any) -> None:
        super().__init__(store, path, node)
        self.shape: tuple[int, ...] = tuple(node.shape)
        self.dtype = node.dtype
        self.chunk: tuple[int, ...] = tuple(node.chunks)
        self.file = Path(str(store.source.root), path)
        folder = path.rpartition("/")[0]
        self.dims = [Dimension(store, folder, label or "") for label in node.metadata.dimension_names or ()]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """Read with numpy's basic indexing; raises OSError where a chunk is missing or damaged."""
        try:
            return self._node[key]
        except ValueError as error:
            np.broadcast_to(np.zeros((), bool), self.shape)[key]  # raises IndexError if it is the key
            raise OSError(str(error)) from error

    def asstr(self, errors: str = "strict") -> Texts:
        """Return an array of text."""
        return Texts(self)


class Texts:
    """An array of text, read as strings."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> Any:
        found = np.asarray(self._array[key])
        return [str(one) for one in found] if found.ndim else str(found[()])


def require_zarr(why: str) -> None:
    """Raise ResourceError, which says `why` it is needed, unless the extra is installed."""
    try:
        import zarr  # noqa: F401
    except ImportError as error:
        hint = f"    hint:     {install('zarr')}"
        raise ResourceError(f"{why} is not installed ({error})\n{hint}") from error


def _whole(path: Path) -> Any:
    """Return the store of a folder in which no chunk may be missing: fill values would take its place."""
    require_zarr(f"{path}: this run is in Zarr, and the package zarr")
    from zarr.storage import LocalStore

    class Whole(LocalStore):
        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            found = await super().get(key, prototype, byte_range)
            if found is None and "/c/" in key:
                raise OSError(f"chunk {key} is missing")
            return found

    return Whole(path, read_only=True)
