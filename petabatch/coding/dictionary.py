"""The dictionary that codes are computed with: an array, a file, or what a run has learned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from petabatch import results
from petabatch.arguments import text
from petabatch.arrays import as_numpy
from petabatch.coding.datasets import array_shapes, listed
from petabatch.errors import MISSING, ArgumentError, InputError, Problem, did_you_mean, similar_path
from petabatch.results import Results
from petabatch.sources.files import HDF5_ERRORS, open_hdf5
from petabatch.sources.transformed import transforms_of
from petabatch.sources.transforms import Transform
from petabatch.storage.checkpoint import checkpoint_steps, latest_checkpoint, load_checkpoint, step_of
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import CHECKPOINTS, DATA, RUN_FILES
from petabatch.weights import WeightFile
from petabatch.weights.axes import OURS, arranged

_AXES = 'the letters o, h, w and, unless images are grey, i, in the order of the array: "oihw" for PyTorch'
_ALONE = "to use the dictionary all the same, pass it as an array: run.weights({name!r})[-1]"


@dataclass(frozen=True)
class Dictionary:
    """Patches, and how the run that learned them used them; None where no run says so."""

    weights: np.ndarray
    """float64 `[feature, patch row, patch column, channel]`."""
    name: str
    """Where it comes from."""
    threshold: float | None = None
    stride: int | None = None
    signed: bool | None = None
    transforms: tuple[Transform, ...] | None = None
    """Transforms of the images."""
    layer: tuple[int, int, int] = (1, 1, 1)
    """Shape of the layer that showed them."""
    factor: float = 1.0
    """Factor on the images."""


def read(given: Any, axes: str | None, dataset: str | None, connection: str | None) -> Dictionary:
    """Return a dictionary: an array, opened results, or the path of a run, or of a .npy, .mat or HDF5 file.

    One that has been read is returned as it is.

    Raises InputError if it cannot be read or is not a dictionary, ArgumentError for unknown `axes`.
    """
    for name, value in (("axes", axes), ("dataset", dataset), ("connection", connection)):
        if value is not None:
            text(name, value)
    if axes is not None and sorted(axes) not in (sorted(OURS), sorted("ohw")):
        raise ArgumentError("axes", "these are not the axes of a dictionary", axes, _AXES)
    if isinstance(given, Dictionary):
        return given
    if isinstance(given, Results):
        return _learned(given, connection)
    if isinstance(given, str | os.PathLike):
        path = os.fspath(given)
        kind = kind_of(path) if dataset is None else None
        if os.path.isdir(path) or kind == "run":
            with results.open(path) as run:
                return _learned(run, connection)
        if kind == "dictionary":
            return _estimated(path)
        return _stored(path, axes, dataset)
    for name, value in (("dataset", dataset), ("connection", connection)):
        if value is not None:
            raise ArgumentError(
                name, "an array has none", value, "no value, or a file or run as the dictionary"
            )
    values = as_numpy("dictionary", given, "an array, the path of a run or of a file, or an opened run")
    return Dictionary(_checked(values, axes, "dictionary"), "an array")


def kind_of(path: str) -> str | None:
    """Return what an HDF5 file of petabatch is of, such as "run"; None for other files."""
    import h5py

    if not (os.path.isfile(path) and h5py.is_hdf5(path)):
        return None
    with h5py.File(path, "r") as file:
        kind = file.attrs.get("kind")
        return kind if isinstance(kind, str) else None


def _stored(path: str, axes: str | None, dataset: str | None) -> Dictionary:
    if not path.endswith((".npy", ".mat", ".h5", ".hdf5")):
        there = os.path.exists(path)
        what = "this is not a dictionary" if there else "there is no such run or file"
        expected = "a run directory, its run.h5, or a .npy, .mat, .h5 or .hdf5 file"
        hint = "" if there else similar_path(Path(path))
        raise InputError(Problem("", what, expected=expected, hint=hint).render(path))
    if dataset is None and path.endswith((".h5", ".hdf5")):
        hint = f"arrays in {path}: {listed(array_shapes(path))}"
        expected = "the dataset of the dictionary"
        raise ArgumentError("dataset", "this argument is missing", MISSING, expected, hint)
    values, name = WeightFile(path=path, dataset=dataset, axes=axes).stored()
    return Dictionary(_checked(values, axes, name), name)


def _estimated(path: str) -> Dictionary:
    """Return the dictionary of an estimator that has been saved, and how it is used."""
    found, name = WeightFile(path=path, dataset="dictionary").stored()
    with open_hdf5(path) as file:
        try:
            threshold, stride, signed = (file.attrs[name] for name in ("threshold", "stride", "signed"))
        except HDF5_ERRORS as error:
            raise InputError(f"{path}: this file cannot be read: {error}") from error
    return Dictionary(_checked(found, None, name), path, float(threshold), int(stride), bool(signed))


def _checked(values: np.ndarray, axes: str | None, name: str) -> np.ndarray:
    """Return the values as float64 `[feature, patch row, patch column, channel]`."""
    if axes is None and values.ndim > len(OURS) and set(values.shape[: -len(OURS)]) == {1}:
        values = values.reshape(values.shape[-len(OURS) :])  # one kernel `[1, 1, ...]` of a connection
    if axes is None and values.ndim not in (3, 4):
        raise InputError(
            f"{name}: this is not a dictionary\n    found:    {values.dtype} {list(values.shape)}\n"
            "    expected: [features, rows, columns, channels], or [features, rows, columns] for grey images"
        )
    values = arranged(values, axes or OURS[: values.ndim], name)
    if values.dtype.kind not in "fiub" or 0 in values.shape or not np.isfinite(values).all():
        raise InputError(
            f"{name}: these values are not a dictionary\n    found:    {values.dtype} {list(values.shape)}\n"
            "    expected: finite numbers"
        )
    return np.ascontiguousarray(values, float)


def _learned(run: Results, connection: str | None) -> Dictionary:
    """Return the newest weights of a run's dictionary, and how the run used them."""
    params = run.params
    layers, connections = params["layers"], params["connections"]
    name = _chosen(run, layers, connections, connection)
    table, code = connections[name], layers[connections[name]["pre"]]
    drives = [c for c in connections.values() if c["type"] == "transpose" and c.get("of") == name]
    errors = {drive["pre"] for drive in drives}
    images = [
        c
        for c in connections.values()
        if c["post"] in errors and c["type"] == "identity" and layers[c["pre"]]["type"] == "input"
    ]
    _check(run, name, table, code, [table, *drives])
    if len(images) != 1:
        raise _unlike(run, name, f"{len(images)} input layers connected to the error", "one")
    (image,) = images
    transforms = _transforms(run, layers[image["pre"]]["source"])
    own = f"layers.{image['pre']}.source.transforms."
    _check_alike(run, name, [f"{own}{n}." for n, step in enumerate(transforms) if not step.random])
    rows, units = layers[table["post"]]["shape"][0], code["shape"][0]
    weights, source = _newest(run, name)
    return Dictionary(
        _checked(weights, None, source),
        source,
        threshold=code["threshold"],
        stride=rows // units,
        signed=code.get("signed", False),
        layer=tuple(layers[image["pre"]]["shape"]),
        transforms=transforms,
        factor=image["strength"],
    )


def _newest(run: Results, name: str) -> tuple[np.ndarray, str]:
    """Return the newest weights of a connection, recorded or of a checkpoint, and where they are."""
    path = f"connections/{name}/weights"
    recorded = int(max(run[path].steps, default=-1)) if path in run else -1
    folder = run.path.parent
    if run.path.name in RUN_FILES and (folder / CHECKPOINTS).is_dir():
        directory = RunDirectory.open(folder)
        newer = max(checkpoint_steps(directory), default=-1) > recorded
        head = latest_checkpoint(directory) if newer else None
        if head is not None and step_of(head) > recorded:
            return load_checkpoint(head, 0, 0)[0][path], f"{head}:{path}"
    if recorded < 0:
        raise InputError(
            f"{run.path}: no weights of {name} have been recorded yet\n"
            "    expected: recorded weights, or a checkpoint in the run directory"
        )
    return run[path][-1], f"{run.path}:{path} of step {recorded}"


def _transforms(run: Results, source: Any) -> tuple[Transform, ...]:
    try:
        return transforms_of(source, run.path.parent / DATA)
    except ValidationError as error:
        raise InputError(
            f"{run.path}: the transforms of the images of this run cannot be used: "
            f"{error.errors()[0]['msg']}\n    hint:     pass the dictionary as an array, and the images "
            "with transforms of their own"
        ) from None


def _chosen(run: Results, layers: Any, connections: Any, wanted: str | None) -> str:
    """Return the name of the dictionary: a convolution from a layer with a threshold."""
    found: list[str] = [
        name
        for name, table in connections.items()
        if table["type"] == "conv" and "threshold" in layers[table["pre"]]
    ]
    if wanted is None and len(found) == 1:
        return found[0]
    if wanted is not None and wanted in found:
        return wanted
    if wanted is None:
        message = "this run has more than one dictionary" if found else "this run has no dictionary"
    else:
        message = f"this run has no dictionary named {wanted}"
    lines = [f"{run.path}: {message}", f"    expected: {', '.join(found) or 'a connection of type conv'}"]
    if hint := did_you_mean(wanted, found) if wanted else "choose one with `connection`" if found else "":
        lines.append(f"    hint:     {hint}")
    raise InputError("\n".join(lines))


def _check(run: Results, name: str, table: Any, code: Any, weighted: Any) -> None:
    """Raise InputError if the run's codes do not minimise the energy that codes are computed for."""
    if table["mode"] != "extra_shared":
        raise _unlike(run, name, f'mode = "{table["mode"]}"', '"extra_shared": one dictionary')
    soft = code.get("transfer", "soft") == "soft" and code.get("vertices") is None
    if not soft or code.get("shift") not in (None, code["threshold"]):
        raise _unlike(run, name, f'transfer = "{code.get("transfer")}"', "the soft threshold")
    if code.get("minimum") or code.get("maximum") not in (None, "Infinity", float("inf")):
        raise _unlike(run, name, "`minimum` or `maximum` of the code", "neither")
    _check_alike(run, name, [f"layers.{table['pre']}.", f"connections.{name}."])
    if any(connection["strength"] != 1 for connection in weighted):
        raise _unlike(run, name, "a `strength` of the dictionary or its transpose", "strength = 1")


def _check_alike(run: Results, name: str, own: Sequence[str]) -> None:
    """Raise InputError if slices or times differ in key paths that begin with one of `own`."""
    params = run.params
    swept = (params.get("sweep") or {}).get("values", {})
    if differing := [
        path
        for path in (*params.get("slices", {}), *swept, *params.get("over_time", {}))
        if path.startswith(tuple(own)) and not path.startswith(f"connections.{name}.learn.")
    ]:
        raise _unlike(
            run,
            name,
            f"{', '.join(differing)}: values per slice or over time",
            "one value for all slices and times",
        )


def _unlike(run: Results, name: str, found: str, expected: str) -> InputError:
    return InputError(
        f"{run.path}: codes of {name} are not those that `encode` computes\n    found:    {found}\n"
        f"    expected: {expected}\n    hint:     {_ALONE.format(name=name)}"
    )
