"""Damage to the files of a run, and what its users then see."""

from __future__ import annotations

import json
import os
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import petabatch as pb
from petabatch import plotting, simulation
from petabatch.errors import PetabatchError, StoppedEarly
from petabatch.report import information, integrity
from petabatch.session import RunSession
from petabatch.storage.description import describe
from petabatch.storage.directory import RunDirectory
from petabatch.storage.index import write_index
from petabatch.storage.merge import merge
from support.commands import SMALL, contents

KINDS = {
    "head": "checkpoints/step_*[0-9].h5",
    "part": "checkpoints/*_rank_*.h5",
    "segment": "parts/*.h5",
    "index": "run.h5",
    "json": "*.json*",
}
"""Patterns of the files of a run, by kind."""
PAIR = "index and segment"
"""Kinds of files that are damaged together."""
TIMEOUT = 300
"""Seconds after which a use counts as hanging, also where the machine is busy."""


def make_runs(folder: Path) -> None:
    """Make the same run twice: `whole`, and `stopped` at display 4 of 6, with two checkpoints.

    `other` is `stopped` with other images: its files have the same names, and its params the same bytes.
    """
    file = folder / "small.toml"
    file.write_text(SMALL)
    for name, seed in (("other", 4), ("stopped", 3)):
        images = np.random.default_rng(seed).normal(size=(7, 12, 12, 3))
        np.save(folder / "images.npy", images.astype(np.float32))
        loaded = simulation.read(file, ["output.flush=1 display"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunSession, "_out_of_time", lambda self: self.engine.step >= 40)
            with pytest.raises(StoppedEarly):
                simulation.run(loaded, folder / name, mpi=False, quiet=True, threads=1)
    simulation.run(loaded, folder / "whole", mpi=False, quiet=True, threads=1)
    for name in ("stopped", "whole"):
        merge(folder / name, folder / f"{name}.h5")


def flip(path: Path, *places: int) -> None:
    """Flip a bit of some bytes, or of the one in the middle."""
    data = bytearray(path.read_bytes())
    for place in places or (len(data) // 2,):
        data[place] ^= 1
    path.write_bytes(data)


def segment(folder: Path, first: int) -> Path:
    """Return the segment that starts at a step."""
    return next((folder / "parts").glob(f"steps_{first:012d}-*.h5"))


def resume(folder: Path) -> None:
    """Resume a run in this process, on one thread."""
    simulation.resume(folder, mpi=False, quiet=True, threads=1)


def files(folder: Path, kind: str) -> list[Path]:
    found = sorted(folder.glob(KINDS[kind]))
    return [path for path in found if kind != "head" or "_rank_" not in path.name]


def damage(path: Path, how: str, rng: np.random.Generator, others: list[Path]) -> str:
    """Damage a file and return a description."""
    data = bytearray(path.read_bytes())
    at = int(rng.integers(len(data)))
    if how == "flip":
        bit = int(rng.integers(8))
        data[at] ^= 1 << bit
        what = f"bit {bit} of byte {at} flipped"
    elif how == "truncate":
        del data[at:]
        what = f"truncated to {at} bytes"
    elif how == "zero":
        length = min(int(2 ** rng.uniform(0, 11)), len(data) - at)
        data[at : at + length] = bytes(length)
        what = f"{length} bytes at {at} zeroed"
    else:
        other = others[int(rng.integers(len(others)))]
        data = bytearray(other.read_bytes())
        what = f"replaced by {other.name}"
    path.write_bytes(data)
    return f"{path.name}: {what}"


def use_merge(folder: Path, runs: Path) -> bool:
    return contents(merge(folder, folder / "merged.tmp.h5")) == contents(runs / "stopped.h5")


def use_compaction(folder: Path, runs: Path) -> bool:
    directory = RunDirectory.open(folder)
    write_index(directory, describe(directory), limit=1)
    return use_merge(folder, runs)


def use_resume(folder: Path, runs: Path) -> bool:
    resume(folder)
    return contents(merge(folder, folder / "merged.tmp.h5")) == contents(runs / "whole.h5")


def use_reader(folder: Path, runs: Path) -> bool:
    with pb.open(folder) as run, pb.open(runs / "stopped") as expected:
        if (run.status, run.steps_reached, list(run)) != (
            expected.status,
            expected.steps_reached,
            list(expected),
        ):
            return False
        return all(
            run[name][...].tobytes() == expected[name][...].tobytes()
            and np.array_equal(run[name].steps, expected[name].steps)
            for name in expected
        )


def use_plot(folder: Path, runs: Path) -> bool:
    return drawn(folder) == expected_drawing(runs)


@cache
def expected_drawing(runs: Path) -> list[bytes]:
    """Return the numbers in plots of the run as it was."""
    return drawn(runs / "stopped")


def drawn(folder: Path) -> list[bytes]:
    """Return the numbers in plots of a run."""
    found = []
    with pb.open(folder) as run:
        for plot in (plotting.energy, plotting.dictionary, plotting.sparsity):
            figure = plot(run, figure=Figure())
            for ax in figure.axes:
                found += [np.asarray(image.get_array()).tobytes() for image in ax.images]
                found += [np.asarray(line.get_xydata()).tobytes() for line in ax.lines]
                found += [np.asarray(bar.get_bbox()).tobytes() for bar in ax.patches]
    return found


def changes(folder: Path, runs: Path) -> list[Path]:
    """Return the files that differ from those of the run that was damaged."""
    return [
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and path.read_bytes() != (runs / "stopped" / path.relative_to(folder)).read_bytes()
    ]


def use_info(folder: Path, runs: Path) -> bool:
    """Return whether info names what was changed."""
    text, changed = "".join(information.describe(folder).split()), changes(folder, runs)
    return all(path.name in text for path in changed)


def use_verify(folder: Path, runs: Path) -> bool:
    """Return whether verify finds what was changed, and repairs what can be."""
    changed = changes(folder, runs)
    text, whole = integrity.verify(folder, repairing=False)
    found = not whole and all(str(path) in text for path in changed)
    _, sound = integrity.verify(folder, repairing=True)
    if changed == [Path("run.h5")]:
        return found and sound and use_merge(folder, runs) and use_reader(folder, runs)
    return found or not changed


def use_repair(folder: Path, runs: Path) -> bool:
    """Return whether a repaired run, and the run resumed from it, lack only what they call lost."""
    integrity.verify(folder, repairing=True)
    if not alike_but_gaps(folder, runs / "stopped"):
        return False
    resume(folder)
    return alike_but_gaps(merge(folder, folder / "merged.tmp.h5"), runs / "whole")


def alike_but_gaps(path: Path, expected: Path) -> bool:
    """Return whether a run has the bits of another, except of the steps that it calls lost."""
    with pb.open(path) as run, pb.open(expected) as other:
        if list(run) != list(other):
            return False
        for name in other:
            steps = other[name].steps
            kept = np.ones(len(steps), bool)
            for first, last in run.gaps:
                kept &= (steps < first) | (steps > last)
            same = np.array_equal(run[name].steps, steps[kept])
            if not same or run[name][...].tobytes() != other[name][...][kept].tobytes():
                return False
        return True


USES: dict[str, Callable[[Path, Path], bool]] = {
    "verify": use_verify,
    "repair": use_repair,
    "merge": use_merge,
    "compaction": use_compaction,
    "resume": use_resume,
    "reader": use_reader,
    "info": use_info,
    "plot": use_plot,
}


@dataclass(frozen=True)
class Outcome:
    """What a use of a damaged run came to."""

    kind: str
    use: str
    what: str
    """The damage."""
    result: str
    """`same`, `refused`, `different`, `traceback`, `hang` or `crash`."""
    detail: str = ""

    @property
    def wrong(self) -> bool:
        return self.result not in ("same", "refused")


def attempt(use: Callable[[Path, Path], bool], folder: Path, runs: Path) -> tuple[str, str]:
    """Use a run in a child process, which HDF5 may crash or hang; return (result, detail)."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(TIMEOUT)
        try:
            answer = ("same" if use(folder, runs) else "different", "")
        except PetabatchError as error:
            answer = ("refused" if str(error).strip() else "traceback", str(error))
        except BaseException:
            answer = ("traceback", traceback.format_exc())
        os.write(writing, json.dumps(answer).encode()[:60000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 0 and text:
        result, detail = json.loads(text)
        return result, detail
    return ("hang" if code == -signal.SIGALRM else "crash"), f"exit code {code}"


def campaign(runs: Path, kind: str, how: str, uses: tuple[str, ...], seed: int) -> Iterator[Outcome]:
    """Damage one file of a kind, or of each of two, and use the run in each of the ways."""
    rng = np.random.default_rng(seed)
    targets = [(one, files(runs / "stopped", one)) for one in kind.split(" and ")]
    chosen = [(one, target[int(rng.integers(len(target)))]) for one, target in targets]
    damaged = runs / f"damaged-{os.getpid()}"
    if "plot" in uses:
        expected_drawing(runs)  # once, and not in each child
    for use in uses:
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(runs / "stopped", damaged)
        what = []
        for one, file in chosen:
            path = damaged / file.relative_to(runs / "stopped")
            others = [
                other
                for folder in (runs / "stopped", runs / "whole")
                for other in files(folder, one)
                if other.read_bytes() != file.read_bytes()
            ]
            what.append(damage(path, how, np.random.default_rng(seed), others or [runs / "small.toml"]))
        yield Outcome(kind, use, ", ".join(what), *attempt(USES[use], damaged, runs))
    shutil.rmtree(damaged, ignore_errors=True)
