"""A run that goes on from a checkpoint of another one; its batch may be another, by a stated rule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from petabatch.engine.engine import Engine
from petabatch.errors import ParamsError, Problem, StorageError
from petabatch.network import lazy
from petabatch.network.until import NAME
from petabatch.storage.checkpoint import checkpoint_batch, latest_checkpoint, load_checkpoint
from petabatch.storage.directory import RunDirectory

_OWN = {f"{NAME}/steps", f"{NAME}/gap", *lazy.KEYS}


def initialise_from(engine: Engine, origin: Path) -> None:
    """Set the state a run starts from: checkpoint `origin`, or the newest of run directory `origin`.

    Steps are counted on from there, so schedules and images go on. What becomes of another batch is
    `run.batch_change`. Every rank calls this. Raises ParamsError where the batch or the length of the run
    does not go with the checkpoint, StorageError where its arrays are not those of this network.
    """
    run = engine.plan.graph.network.run
    head = _head(origin)
    before, _ = checkpoint_batch(head)
    if run.batch != before and run.batch_change == "error":
        raise ParamsError(
            [
                Problem(
                    "run.batch",
                    f"the batch is not that of {head}",
                    found=str(run.batch),
                    expected=str(before),
                    hint='run.batch_change = "cycle" or "reset" says what new slices begin with',
                )
            ]
        )
    engine.start()
    lo, hi = engine.state.lo, engine.state.hi
    if run.batch_change == "cycle":
        taken = [number % before for number in range(lo, hi)]
    else:
        taken = list(range(lo, min(hi, before)))
    step = _take(engine, head, taken)
    if step >= run.length:
        raise ParamsError(
            [
                Problem(
                    "run.displays" if run.displays else "run.steps",
                    f"the run is no longer than what {head} has behind it",
                    found=f"{run.length} steps",
                    expected=f"more than {step} steps, which are counted on",
                )
            ]
        )
    engine.resume(step, engine.state.saved())
    _show_own(engine, before)


def _head(origin: Path) -> Path:
    if not origin.exists():
        raise StorageError(
            f"{origin}: there is no such run or checkpoint\n"
            "    expected: a run directory, or a file checkpoints/step_*.h5 in one\n"
            f"    hint:     paths are relative to the params file or to {Path.cwd()}"
        )
    if not origin.is_dir():
        return origin
    head = latest_checkpoint(RunDirectory.open(origin))
    if head is None:
        raise StorageError(f"{origin}: there is no complete checkpoint to start from")
    return head


def _take(engine: Engine, head: Path, slices: Sequence[int]) -> int:
    """Put the state of the given slices of a checkpoint in place of the first local ones; return its step."""
    mine = engine.state.saved()
    batched = {key for key in mine if engine.state.variables[key].per == "slice"}
    lo, hi = min(slices, default=0), max(slices, default=-1) + 1
    arrays, meta = load_checkpoint(head, lo, hi)
    if engine.split is not None:
        arrays = engine.split.part(arrays)
    here = {key: _kind(array, key in batched) for key, array in mine.items()}
    there = {key: _kind(array, key in checkpoint_batch(head)[1]) for key, array in arrays.items()}
    # One of the two runs may have ended its displays early: a slice then starts out awake.
    own = _OWN & (here.keys() ^ there.keys())
    for key in own if lazy.goes_on(mine, arrays) else own.union(lazy.KEYS):
        here.pop(key, None), there.pop(key, None), mine.pop(key, None)
    if here != there:
        names = sorted(key for key in here.keys() | there.keys() if here.get(key) != there.get(key))
        lines = [f"    {key}: {here.get(key, 'not')} here, {there.get(key, 'not')} there" for key in names]
        raise StorageError("\n".join([f"{head}: its arrays are not those of this network", *lines]))
    places = np.asarray(slices, np.intp) - lo
    for key, array in mine.items():
        array[: len(places) if key in batched else 1] = arrays[key][places] if key in batched else arrays[key]
    return int(meta["step"])


def _kind(array: np.ndarray, batched: bool) -> str:
    return f"{list(array.shape[1:])} {'of each slice' if batched else 'of all slices'}"


def _show_own(engine: Engine, before: int) -> None:
    """Show slices that the checkpoint did not have what they would see by now."""
    state, display = engine.state, engine.plan.graph.network.run.display
    for name, layer in engine.plan.inputs.items():
        history = state.arrays[f"layers/{name}/A"]
        for step in range(max(0, engine.step - history.shape[1] + 1), engine.step + 1):
            item = layer.shown(step, display)
            for number in range(max(state.lo, before), state.hi):
                history[number - state.lo, step % history.shape[1]] = engine.readers[name](number, item)
