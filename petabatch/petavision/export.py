"""`petabatch export`: what a run recorded, as PetaVision's files, for the scripts that read them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.clock import Clock
from petabatch.errors import ArgumentError
from petabatch.petavision.pvp import write_activities, write_weights
from petabatch.results import Results
from petabatch.results import open as open_run
from petabatch.results.series import Series
from petabatch.storage.checkpoint import checkpoint_batch, latest_checkpoint, load_checkpoint, step_of
from petabatch.storage.directory import RunDirectory
from petabatch.weight_mode import over_positions, over_slices

_NORMS = {"l2": "squares", "l1": "sum", "l0": "active"}
"""Quantity that a probe of PetaVision prints, by type of probe."""
_WEIGHTS = {"weights": "W", "momentum": "prev_dW"}
"""Names of weights and of their previous change in checkpoints, by variable."""


def export(run: Path, output: Path) -> Iterator[tuple[Path, str]]:
    """Write the files of a run into a new folder; yield each with what it holds.

    Activities are `LAYER.pvp` (other variables `LAYER_V.pvp`), the elements of a batch one after the other;
    weights are `CONNECTION.pvp`, of each slice where slices have their own; energies and norms are text,
    `PROBE_batchElement_0.txt`. Arrays are read and written frame by frame. Of the latest checkpoint, weights,
    momentum and the variables of layers are written as one of PetaVision, `Checkpoints/Checkpoint400/`.
    Raises ArgumentError if the folder exists and is not empty.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        hint = "choose another folder, or remove it first"
        raise ArgumentError("--output", "this folder exists and is not empty", str(output), hint=hint)
    with open_run(run) as results:
        output.mkdir(parents=True, exist_ok=True)
        params: dict[str, Any] = results.params
        dt = float(params["run"]["dt"])
        for name in results.names():
            kind, owner, *rest = name.split("/")
            series = results[name]
            if kind == "layers" and series.steps.size and np.ndim(series[0]) == 4:
                path = output / (f"{owner}.pvp" if rest == ["A"] else f"{owner}_{rest[-1]}.pvp")
                shape = series[0].shape
                frames = write_activities(path, shape[1:], _frames(series, dt), sparse=series.sparse)
                yield path, f"{frames} frames"
            elif kind == "connections" and rest == ["weights"] and series.steps.size:
                yield from _weights(series, owner, params["connections"][owner]["mode"], output, dt)
            elif kind == "probes":
                yield from _text(results, params, owner, rest[-1], series, output, dt)
    if (head := latest_checkpoint(RunDirectory(run if run.is_dir() else run.parent))) is not None:
        yield from _checkpoint(head, params, output / "Checkpoints", dt)


def _checkpoint(head: Path, params: dict[str, Any], output: Path, dt: float) -> Iterator[tuple[Path, str]]:
    """Write what a network starts from: `LAYER_V.pvp`, `CONNECTION_W.pvp` and `CONNECTION_prev_dW.pvp`."""
    batch, _ = checkpoint_batch(head)
    arrays, _ = load_checkpoint(head, 0, batch)
    step = step_of(head)
    time, folder = Clock(dt=dt).time(step), output / f"Checkpoint{step}"
    folder.mkdir(parents=True)
    for name, array in arrays.items():
        kind, owner, variable = (*name.split("/", 2), "", "")[:3]
        if (
            kind == "layers"
            and variable != "A"
            and array.shape[1:] == tuple(params["layers"][owner]["shape"])
        ):
            path = folder / f"{owner}_{variable}.pvp"
            yield path, f"{write_activities(path, array.shape[1:], ((time, one) for one in array))} frames"
        elif kind == "connections" and variable in _WEIGHTS and array.ndim == 7:
            mode = params["connections"][owner]["mode"]
            for lane, weights in enumerate(array):
                element = "" if over_slices(mode) else f"_batchElement_{lane}"
                path = folder / f"{owner}{element}_{_WEIGHTS[variable]}.pvp"
                units = None if over_positions(mode) else weights.shape[:2]
                yield path, f"{write_weights(path, [(time, weights)], units)} frame of weights"


def _frames(series: Series, dt: float) -> Iterator[tuple[float, np.ndarray]]:
    for number, step in enumerate(series.steps):
        for frame in series[number]:
            yield Clock(dt=dt).time(float(step)), frame


def _weights(series: Series, name: str, mode: str, output: Path, dt: float) -> Iterator[tuple[Path, str]]:
    """Write the weights of a connection, those of each slice in a file of its own."""
    lanes = 1 if over_slices(mode) else series[0].shape[0]

    def weights(lane: int) -> Iterator[tuple[float, np.ndarray]]:
        for number, step in enumerate(series.steps):
            found = series[number] if over_slices(mode) else series[number][lane]
            yield Clock(dt=dt).time(float(step)), found.reshape((1,) * (6 - found.ndim) + found.shape)

    for lane in range(lanes):
        path = output / (f"{name}.pvp" if lanes == 1 else f"{name}_batchElement_{lane}.pvp")
        shape = next(weights(lane))[1].shape
        units = None if over_positions(mode) else shape[:2]
        yield path, f"{write_weights(path, weights(lane), units)} frames of weights"


def _text(
    results: Results,
    params: dict[str, Any],
    name: str,
    quantity: str,
    series: Series,
    output: Path,
    dt: float,
) -> Iterator[tuple[Path, str]]:
    """Write a probe as PetaVision prints it (`NormProbeOutputter.cpp:46`, `ColumnEnergyOutputter.cpp:39`)."""
    probe = params["probes"].get(name)
    if probe is None:
        return
    energy = probe["type"] in ("energy", "sum") and quantity == "total"
    if not energy and _NORMS.get(probe["type"]) != quantity:
        return
    units = 0 if energy else math.prod(params["layers"][probe["layer"]]["shape"])
    values = np.asarray(series)
    for element in range(values.shape[1]):
        path = output / f"{name}_batchElement_{element}.txt"
        with path.open("w", encoding="utf-8") as file:
            if energy:
                file.write("time,index,energy\n")
            for step, value in zip(series.steps, values[:, element], strict=True):
                time = Clock(dt=dt).time(float(step))
                file.write(
                    f"{time:10f}, {element}, {value:10.9f}\n"
                    if energy
                    else f"{time:6.3f}, {element}, {units:8d}, {value:f}\n"
                )
        yield path, f"{len(values)} lines"
