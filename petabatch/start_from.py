"""Initial state from a checkpoint of another run (`run.start_from`), also with another batch size."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from petabatch.engine.state import check_whole
from petabatch.errors import (
    FormatError,
    InputFileError,
    ParamsError,
    Problem,
    RunDirectoryError,
    StorageError,
)
from petabatch.logs import log
from petabatch.network import last_finite, lazy_codes
from petabatch.network.until import GAP, STEPS
from petabatch.spec.load import Loaded
from petabatch.spec.network import Run
from petabatch.storage.atomic import new_file
from petabatch.storage.checkpoint import (
    checkpoint_batch,
    checkpoint_step,
    latest_checkpoint,
    load_checkpoint,
    parts_of,
)
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import KEPT

if TYPE_CHECKING:
    from petabatch.engine.engine import Engine

_KEY = "run.start_from"
_LISTED = 3
"""Arrays listed in a message."""


@dataclass(frozen=True)
class Place:
    """Which slices of a sweep the slices of an engine are."""

    numbers: Sequence[int]
    batch: int
    """Slices of the sweep."""
    point: int
    """Slices of a point."""


@dataclass(frozen=True)
class Origin:
    """A checkpoint of another run."""

    head: Path
    batch: int
    step: int

    @classmethod
    def of(cls, run: Run, batch: int) -> Origin:
        """Return that of a run of `batch` slices: the checkpoint it names, or the latest one of a directory.

        That of a sweep has the slices of the sweep, or those from which each of its points starts. Raises
        ParamsError when the batch or the length of the run does not match, InputFileError when there is none.
        """
        assert run.start_from is not None
        head = checkpoint_of(Path(run.start_from))
        with _problems():
            found = cls(head, checkpoint_batch(head)[0], checkpoint_step(head))
        if found.batch not in (batch, run.batch) and run.batch_change == "error":
            raise ParamsError(
                [
                    Problem(
                        "run.batch",
                        f"the batch differs from that of {head}",
                        found=str(batch),
                        expected=str(found.batch),
                        hint='run.batch_change = "cycle" or "reset" sets the initial state of new slices',
                    )
                ]
            )
        if found.step >= run.length:
            raise ParamsError(
                [
                    Problem(
                        "run.displays" if run.displays else "run.steps",
                        f"the run ends before the step of {head}",
                        found=f"{run.length} steps",
                        expected=f"more than {found.step} steps: those of the checkpoint count",
                    )
                ]
            )
        return found


def initialise_from(engine: Engine, place: Place | None = None) -> None:
    """Initialise the state from the checkpoint that `run.start_from` names.

    The step count continues from there, and with it schedules and the order of images. `run.batch_change`
    says how a batch of another size is filled. Collective. Raises what `Origin.of` does, and InputFileError
    when its arrays do not match.
    """
    run, slices = engine.plan.graph.network.run, range(engine.state.lo, engine.state.hi)
    place = place or Place(range(engine.plan.graph.network.batch), engine.plan.graph.network.batch, run.batch)
    origin = Origin.of(run, place.batch)
    engine.start()
    numbers, before = [place.numbers[number] for number in slices], origin.batch
    same = before in (place.batch, place.point)
    if same or run.batch_change == "cycle":
        taken = [number % before for number in numbers]
    else:
        taken = [number for number in numbers if number < before]
    with _problems():
        _load_slices(engine, origin.head, taken)
    _show_current_items(engine, origin.step, before, numbers if not same else None)
    engine.resume(origin.step, engine.state.saved())


def keep_origin(directory: RunDirectory, run: Run) -> None:
    """Copy the checkpoint that a run starts from, if it does; raises StorageError."""
    if run.start_from is None:
        return
    head = Path(run.start_from)
    folder = directory.path / KEPT
    folder.mkdir(parents=True)
    for name in (*(part.name for part in parts_of(head)), head.name):
        try:
            source = (head.parent / name).open("rb")
        except OSError as error:
            raise StorageError(f"{head.parent / name}: cannot be read: {error.strerror}") from error
        with source, new_file(folder / name) as copy:
            shutil.copyfileobj(source, copy)


def from_kept_origin(directory: RunDirectory, loaded: Loaded) -> Loaded:
    """Return the network of a directory, which starts from the copy of a checkpoint that is kept in it."""
    network = loaded.network
    kept = directory.path / KEPT / Path(network.run.start_from or "").name
    if not kept.is_file():
        return loaded
    run = network.run.model_copy(update={"start_from": str(kept)})
    return replace(loaded, network=network.model_copy(update={"run": run}))


def checkpoint_of(origin: Path) -> Path:
    """Return the checkpoint that `origin` names; raises InputFileError when there is none."""
    if not origin.exists():
        raise InputFileError(
            [
                Problem(
                    _KEY,
                    f"{origin}: no such run or checkpoint",
                    expected="a run directory, or a file checkpoints/step_*.h5 in one",
                    hint=f"paths are relative to the params file or to {Path.cwd()}",
                )
            ]
        )
    with _problems():
        if not origin.is_dir():
            checkpoint_batch(origin)
            return origin
        directory = RunDirectory.open(origin)
        head = latest_checkpoint(directory)
        if head is None:
            hint = (
                "if they were pruned, recorded weights are left: "
                f'init = {{ type = "file", path = "{origin}", connection = NAME }}'
            )
            if directory.in_waves:
                hint = (
                    "a sweep ends with one if all its points are made together, in one wave on each rank, "
                    "and none are added by --extend"
                )
            raise StorageError(f"{origin}: no complete checkpoint to start from\n    hint:     {hint}")
    return head


@contextmanager
def _problems() -> Iterator[None]:
    """Report a checkpoint that cannot be used as a problem of the key that names it."""
    try:
        yield
    except (StorageError, RunDirectoryError) as error:
        raise InputFileError([Problem(_KEY, str(error))]) from error


def _load_slices(engine: Engine, head: Path, slices: Sequence[int]) -> None:
    """Load the given slices of a checkpoint into the first local ones."""
    mine = engine.state.saved()
    batched = {key for key in mine if engine.state.variables[key].per == "slice"}
    lo, hi = min(slices, default=0), max(slices, default=-1) + 1
    arrays, meta = load_checkpoint(head, lo, hi)
    arrays = dict(engine.features.part(arrays))
    for key in last_finite.saved(arrays):  # the state to go on from is that of the step
        del arrays[key]
    places = np.asarray(slices, np.intp) - lo
    for key in _constants(engine):  # numbers are those of the params, also where each unit has its own
        before, now = arrays.pop(key, None), mine.pop(key, None)
        if before is not None and now is not None and not _alike(now, before, places):
            log.info("note: %s are those of the params, and others than in %s", key, head)
    here = {key: _kind(array, key in batched) for key, array in mine.items()}
    there = {key: _kind(array, key in checkpoint_batch(head)[1]) for key, array in arrays.items()}
    # Early stopping and lazy evaluation may be on in one of the two runs only; they then start afresh.
    probes = {key for key in here.keys() | there.keys() if key.startswith("probes/")}  # begin anew
    for key in probes | ({STEPS, GAP} & (here.keys() ^ there.keys())) | lazy_codes.keys(here, there):
        here.pop(key, None), there.pop(key, None), mine.pop(key, None)
    if here != there:
        names = sorted(key for key in here.keys() | there.keys() if here.get(key) != there.get(key))
        found, expected = (
            "; ".join(f"{key} {kinds.get(key, 'missing')}" for key in names[:_LISTED])
            + f"; {len(names) - _LISTED} more" * (len(names) > _LISTED)
            for kinds in (there, here)
        )
        raise StorageError(
            f"{head}: the arrays of this checkpoint do not match the network\n"
            f"    found:    {found}\n    expected: {expected}\n"
            f"    hint:     {_remedy(engine, names)}"
        )
    if stopped := sorted({number for number, *_ in meta.get("failed", ())} & set(slices)):
        log.warning(
            "%s: slices %s had failed there, and begin from their last finite state",
            head, ", ".join(map(str, stopped)),
        )  # fmt: skip
    try:
        check_whole(engine.state.variables, arrays)
    except FormatError as error:
        raise StorageError(f"{head}: {error}") from error
    for name in engine.plan.graph.synapses:
        prefix = f"connections/{name}/"
        learned = engine.plan.graph.learned
        parts = [
            key
            for key in mine
            if key.startswith(prefix) and not key.endswith("/pending") and key not in learned
        ]
        if not all(_alike(mine[key], arrays[key], places if key in batched else None) for key in parts):
            log.warning(
                "connections.%s: its synapses and their weights are those of %s; those that the params make "
                "are others\n    hint:     a run that starts at step 0 has them",
                name, head,
            )  # fmt: skip
    for key, array in mine.items():
        array[: len(places) if key in batched else 1] = arrays[key][places] if key in batched else arrays[key]
    for lane in engine.lanes:
        own, taken = lazy_codes.keys(lane.plan.variables), places[lane.lanes]
        lazily = {key: engine.state.arrays[key] for key in own}
        for key, array in lazily.items() if lazy_codes.continues(lazily, arrays) else ():
            array[lane.lanes][: len(taken)] = arrays[key][taken]


def _remedy(engine: Engine, names: Sequence[str]) -> str:
    """Return what helps where arrays of a checkpoint do not match those of the network."""
    synapses = engine.plan.graph.synapses
    if all(
        folder == "connections" and name in synapses for folder, name, *_ in (key.split("/") for key in names)
    ):
        return (
            "the synapses are those of the checkpoint: another run.seed or probability draws another "
            "number of them"
        )
    return (
        "layers, patches and learning rules must be those of the run that it comes from; to take over its "
        'weights alone, use init = { type = "file", path = ..., connection = ... }'
    )


def _constants(engine: Engine) -> list[str]:
    """Return the keys of the parameters of layers that may have values of each unit."""
    layers = engine.plan.graph.network.layers.items()
    return [f"layers/{name}/{constant}" for name, layer in layers for constant in layer.constants]


def _alike(mine: np.ndarray, arrays: np.ndarray, places: np.ndarray | None) -> bool:
    """Return whether slices have what they would start with; `places` are their places in the checkpoint."""
    there = arrays if places is None else arrays[places]
    return np.array_equal(mine[: len(there)], there)


def _kind(array: np.ndarray, batched: bool) -> str:
    return f"{list(array.shape[1:])} {'of each slice' if batched else 'of all slices'}"


def _show_current_items(engine: Engine, last: int, before: int, others: Sequence[int] | None) -> None:
    """Show the input items due at step `last`, from which the run goes on: the checkpoint may lack them.

    It has none of slices that it lacks, and others where the network has another source. Where the batch has
    another size, items are dealt in another way: slices that it has keep what they show to the display's end.
    `others` are the numbers of slices in a batch of another size.
    """
    state, display = engine.state, engine.plan.graph.network.run.display
    for name, layer in engine.plan.inputs.items():
        history = state.arrays[f"layers/{name}/A"]
        stays = layer.item(last + 1, display) is None
        for step in range(max(0, last - history.shape[1] + 1), last + 1):
            item, now = layer.shown(step, display), others is None and stays and step == last
            for place in range(len(history)):
                if now or (others is not None and others[place] >= before):
                    history[place, step % history.shape[1]] = engine.readers[name](state.lo + place, item)
