"""The datasets of an HDF5 file, for messages about one that has not been named."""

from __future__ import annotations

from petabatch.errors import InputError
from petabatch.sources.files import HDF5_ERRORS, open_hdf5

_LISTED = 6


def array_shapes(path: str) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array of numbers in the file; raises InputError if it cannot be read."""
    import h5py

    found: dict[str, tuple[int, ...]] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.shape and item.dtype.kind in "fiub":
            found[name] = item.shape

    with open_hdf5(path) as file:
        try:
            file.visititems(visit)
        except HDF5_ERRORS as error:
            raise InputError(f"{path}: this file cannot be read: {error}") from error
    return found


def listed(shapes: dict[str, tuple[int, ...]]) -> str:
    """Return the arrays as text, those with images or patches first."""
    order = sorted(shapes, key=lambda name: len(shapes[name]) < 3)
    names = [f"{name} {list(shapes[name])}" for name in order[:_LISTED]]
    more = f" and {len(order) - _LISTED} more" if len(order) > _LISTED else ""
    return f"{', '.join(names) or 'none'}{more}"
