"""Two kinds of damage at once, to files and to their names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np

from petabatch.report import integrity
from petabatch.storage.merge import merge
from support import damage
from support.damage import KINDS, Outcome, alike_but_gaps, attempt, files, resume

Rng = np.random.Generator
Damage = Callable[[Path, Path, Path, Rng], str]
"""`damage(folder, file, runs, rng)` damages a file of a run, and says how."""


def one(choices: list[Path], rng: Rng) -> Path:
    return choices[int(rng.integers(len(choices)))]


def altered(name: str, rng: Rng) -> str:
    """Return a name with another digit or letter."""
    places = [place for place, letter in enumerate(name) if letter.isalnum()]
    place = places[int(rng.integers(len(places)))]
    letter = name[place]
    new = chr(ord("0") + (int(letter) + int(rng.integers(1, 10))) % 10) if letter.isdigit() else "x"
    return f"{name[:place]}{new}{name[place + 1 :]}"


def kind_of(folder: Path, file: Path) -> str:
    return next(kind for kind in KINDS if file in files(folder, kind))


def content(how: str) -> Damage:
    def damaged(folder: Path, file: Path, runs: Path, rng: Rng) -> str:
        return damage.damage(file, how, rng, [])

    return damaged


def chunk(folder: Path, file: Path, runs: Path, rng: Rng) -> str:
    """Set a chunk of a recorded array to zero, as a lost block is read, with its checksum if it has one."""
    if kind_of(folder, file) != "segment":
        return damage.damage(file, "zero", rng, [])
    found: list[tuple[str, int, int]] = []
    with h5py.File(file) as opened:

        def collect(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset) and item.chunks:
                for number in range(item.id.get_num_chunks()):
                    place = item.id.get_chunk_info(number)
                    found.append((name, place.byte_offset, place.size))

        opened.visititems(collect)
    name, offset, size = found[int(rng.integers(len(found)))]
    data = bytearray(file.read_bytes())
    data[offset : offset + size] = bytes(size)
    file.write_bytes(data)
    return f"{file.name}: chunk of {name} zeroed"


def foreign(folder: Path, file: Path, runs: Path, rng: Rng) -> str:
    """Replace a file by that of another run; of a part of a checkpoint, the name has a checksum."""
    theirs = runs / "other" / file.relative_to(folder)
    if not theirs.exists():
        theirs = one(files(runs / "other", kind_of(folder, file)), rng)
    shutil.copy(theirs, file)
    return f"{file.name}: replaced by that of another run"


def renamed(folder: Path, file: Path, runs: Path, rng: Rng) -> str:
    new = file.with_name(altered(file.name, rng))
    file.rename(new)
    return f"{file.name}: renamed to {new.name}"


def doubled(folder: Path, file: Path, runs: Path, rng: Rng) -> str:
    new = file.with_name(altered(file.name, rng))
    shutil.copy(file, new)
    return f"{file.name}: copied to {new.name}"


def exchanged(folder: Path, file: Path, runs: Path, rng: Rng) -> str:
    other = one(files(folder, kind_of(folder, file)), rng)
    mine = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(mine)
    return f"{file.name}: exchanged with {other.name}"


def removed(folder: Path, file: Path, runs: Path, rng: Rng) -> str:
    file.unlink()
    return f"{file.name}: removed"


FILES: dict[str, Damage] = {
    **{how: content(how) for how in ("flip", "truncate", "zero")},
    "chunk": chunk,
    "foreign": foreign,
    "renamed": renamed,
    "doubled": doubled,
    "exchanged": exchanged,
    "removed": removed,
}


def changed(folder: Path, runs: Path) -> list[Path]:
    """Return the files that a run has, lacks or has with other bytes than the one that was damaged."""
    names = {path.relative_to(root) for root in (folder, runs / "stopped") for path in root.rglob("*")}

    def content(path: Path) -> bytes | None:
        return path.read_bytes() if path.is_file() else None

    return sorted(name for name in names if content(folder / name) != content(runs / "stopped" / name))


def use_verify(folder: Path, runs: Path) -> bool:
    """Return whether verify calls a run damaged, unless it lacks unneeded checkpoints only.

    What others have put there does not matter, if it is not taken for a file of the run.
    """
    before = [name for name in changed(folder, runs) if (runs / "stopped" / name).exists()]
    _, whole = integrity.verify(folder, repairing=False)
    gone = {name for name in before if name.parts[0] == "checkpoints" and not (folder / name).exists()}
    parts = {name for name in before if name.parts[0] == "checkpoints" and "_rank_" in name.name}
    return not whole or set(before) <= {*gone, *parts}


def use_resume(folder: Path, runs: Path) -> bool:
    resume(folder)
    return alike_but_gaps(merge(folder, folder / "merged.tmp.h5"), runs / "whole")


def use_compaction(folder: Path, runs: Path) -> bool:
    """Merge, which misses steps that the index has, and then compact, which makes another index."""
    same = damage.use_merge(folder, runs)
    (folder / "merged.tmp.h5").unlink()
    return same and damage.use_compaction(folder, runs)


USES: dict[str, Callable[[Path, Path], bool]] = {
    **{use: damage.USES[use] for use in ("repair", "merge", "reader", "plot")},
    "compaction": use_compaction,
    "verify": use_verify,
    "resume": use_resume,
}


def campaign(runs: Path, uses: tuple[str, ...], seed: int) -> Iterator[Outcome]:
    """Damage two files of a run, and use the run in each of the ways."""
    rng = np.random.default_rng(seed)
    hows, kinds = list(FILES), list(KINDS)
    chosen: list[tuple[str, Damage, Path]] = []
    for _ in range(2):
        how, kind = hows[int(rng.integers(len(hows)))], kinds[int(rng.integers(len(kinds)))]
        file = one(files(runs / "stopped", kind), rng).relative_to(runs / "stopped")
        chosen.append((how, FILES[how], file))
    damaged = runs / f"damaged-{os.getpid()}"
    for use in uses:
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(runs / "stopped", damaged)
        what, own = [], np.random.default_rng(seed)
        for _, harm, file in chosen:
            if (damaged / file).exists():
                what.append(harm(damaged, damaged / file, runs, own))
        kind = " and ".join(sorted(how for how, _, _ in chosen))
        yield Outcome(kind, use, ", ".join(what), *attempt(USES[use], damaged, runs))
    shutil.rmtree(damaged, ignore_errors=True)
