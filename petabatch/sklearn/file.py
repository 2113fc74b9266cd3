"""The HDF5 file of a fitted estimator: its dictionary, its parameters, and what it learns on from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from petabatch.errors import ArgumentError, InputError
from petabatch.sources.files import HDF5_ERRORS, dataset, open_hdf5, values
from petabatch.storage.atomic import available, new_hdf5
from petabatch.version import __version__

KIND = "dictionary"


class Saved(NamedTuple):
    """What a file says of an estimator."""

    parameters: dict[str, Any]
    fitted: dict[str, Any]
    """Its attributes that are no arrays."""
    arrays: dict[str, np.ndarray]


def write(
    path: str | os.PathLike[str],
    force: bool,
    dictionary: np.ndarray,
    usage: Mapping[str, Any],
    saved: Saved,
) -> None:
    """Write a dictionary `[feature, row, column, channel]`, how `encode` uses it, and all of an estimator.

    Raises StorageError if the file exists or cannot be written.
    """
    with new_hdf5(available(path, "dictionary.h5", KIND, force)) as (file, _):
        file.create_dataset("dictionary", data=dictionary)
        for name, array in saved.arrays.items():
            file.create_dataset(f"estimator/{name}", data=array)
        texts = {"parameters": saved.parameters, "fitted": saved.fitted}
        file.attrs.update({"kind": KIND, "petabatch_version": __version__, **usage})
        file.attrs.update({name: json.dumps(value) for name, value in texts.items()})


def read(path: str) -> Saved:
    """Return what the file of an estimator says of it; raises InputError if it is none, or damaged."""
    with open_hdf5(path) as file:
        if file.attrs.get("kind") != KIND:
            raise InputError(
                f"{path}: this is no file of an estimator\n"
                "    expected: what `save` of an estimator has written, or a run"
            )
        try:
            names = list(file["estimator"])
            parameters, fitted = (json.loads(file.attrs[name]) for name in ("parameters", "fitted"))
        except HDF5_ERRORS as error:
            raise InputError(f"{path}: this file cannot be read: {error}") from error
        arrays = {name: values(dataset(file, f"estimator/{name}"), f"{path}:{name}") for name in names}
    return Saved(parameters, fitted, arrays)


def text_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that can be written as text; a generator of random numbers becomes None."""
    found = {}
    for name, value in parameters.items():
        value = value.item() if isinstance(value, np.generic) else value
        if name == "random_state" and not isinstance(value, int):
            value = None
        try:
            json.dumps(value)
        except TypeError:
            raise ArgumentError(name, "this parameter cannot be saved", value, "a number or text") from None
        found[name] = value
    return found
