"""Somebody else's run directory: nothing in it leads to files outside of it, whichever command opens it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

import petabatch
from petabatch import simulation
from petabatch.errors import StorageError
from petabatch.main import main
from petabatch.report.information import describe
from petabatch.storage.checkpoint import load_checkpoint
from petabatch.storage.directory import RunDirectory
from petabatch.storage.merge import merge
from petabatch.storage.seal import checksum, sealed_json
from support.commands import SMALL, alone
from support.sealing import reseal, unsealed

SECRET = b"mine alone\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("theirs")
    np.save(place / "images.npy", np.random.default_rng(3).normal(size=(7, 12, 12, 3)).astype(np.float32))
    (place / "small.toml").write_text(SMALL)
    return alone(place / "small.toml", "out", "run.displays=2")


@pytest.fixture
def theirs(finished: Path, tmp_path: Path) -> Path:
    """A copy of a run, beside files of mine: a text and an HDF5 file."""
    (tmp_path / "secret").write_bytes(SECRET)
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["numbers"] = np.arange(3)
    return Path(shutil.copytree(finished, tmp_path / "out"))


def read_all(path: Path) -> None:
    with petabatch.open(path) as run:
        for name in run:
            run[name][...]


def merge_all(path: Path) -> None:
    merge(path, path.parent / "one.h5")


def resume(path: Path) -> None:
    simulation.resume(path, quiet=True, mpi=False)


def first(folder: Path) -> Path:
    return min(folder.glob("*.h5"))


@pytest.mark.parametrize(
    "name", ["log.txt", "params.toml", "params.json", "run.h5", ".run.h5.tmp", "parts", "checkpoints", "data",
             "parts/first", "parts/.x.h5.tmp", "checkpoints/first"],
)  # fmt: skip
def test_symbolic_links_that_lead_outside_are_refused(theirs: Path, name: str) -> None:
    path = theirs / name if not name.endswith("first") else first(theirs / name.removesuffix("/first"))
    target = theirs.parent / "elsewhere"
    if os.path.lexists(path):
        path.rename(target)
    else:
        target.write_bytes(SECRET)
    path.symlink_to(target)
    for command in (resume, describe, merge_all, read_all):
        with pytest.raises(StorageError, match="this symbolic link leads out of the run directory"):
            command(theirs)
    assert not target.is_file() or name != "log.txt" or b"refused" not in target.read_bytes()


def test_symbolic_links_within_the_run_are_followed_and_pipes_are_not(theirs: Path) -> None:
    (theirs / "log.txt").rename(theirs / "log.rank1.txt")
    (theirs / "log.txt").symlink_to("log.rank1.txt")
    RunDirectory.open(theirs)
    read_all(theirs)
    (theirs / "log.txt").unlink()
    os.mkfifo(theirs / "log.txt")
    for command in (resume, describe, merge_all, read_all):
        with pytest.raises(StorageError, match=r"log.txt: refused, since this is neither a file nor"):
            command(theirs)


def external_link(file: h5py.File, name: str, secret: Path) -> None:
    del file[name]
    file[name] = h5py.ExternalLink(str(secret) + ".h5", "numbers")


def soft_link(file: h5py.File, name: str, secret: Path) -> None:
    del file[name]
    file[name] = h5py.SoftLink("/batch")


def external_storage(file: h5py.File, name: str, secret: Path) -> None:
    del file[name]
    file.create_dataset(name, shape=(3,), dtype="u1", external=[(str(secret), 0, 3)])


def virtual(file: h5py.File, name: str, secret: Path) -> None:
    del file[name]
    layout = h5py.VirtualLayout((3,), "i8")
    layout[:] = h5py.VirtualSource(str(secret) + ".h5", "numbers", (3,))
    file.create_virtual_dataset(name, layout)


def filtered(file: h5py.File, name: str, secret: Path) -> None:
    del file[name]
    file.create_dataset(name, data=np.arange(3), chunks=(3,), compression=32015, allow_unknown_filter=True)


REFERENCES = [external_link, soft_link, external_storage, virtual, filtered]
Reference = Callable[[h5py.File, str, Path], None]


@pytest.mark.parametrize("reference", REFERENCES)
def test_an_index_that_refers_to_other_files_is_refused(theirs: Path, reference: Reference) -> None:
    with h5py.File(theirs / "run.h5", "r+") as file:
        reference(file, "probes/energy/total", theirs.parent / "secret")
    reseal(theirs / "run.h5")  # whoever changes a file can change its checksum
    assert "refers to what is no part of the run" in " ".join(describe(theirs).split())
    with pytest.raises(StorageError, match=r"refers to what is no part of the run\n.*probes/energy/total"):
        read_all(theirs)
    merge_all(theirs)  # of the segments, which refer to nothing
    read_all(theirs.parent / "one.h5")


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_segment_that_refers_to_other_files_is_refused(theirs: Path, reference: Reference) -> None:
    with h5py.File(first(theirs / "parts"), "r+") as file:
        reference(file, "probes/energy/total/values", theirs.parent / "secret")
    reseal(first(theirs / "parts"), theirs)
    for command in (merge_all, read_all):
        with pytest.raises(StorageError, match="refers to what is no part of the run"):
            command(theirs)


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_checkpoint_that_refers_to_other_files_is_refused(theirs: Path, reference: Reference) -> None:
    head = max((theirs / "checkpoints").glob("step_?????????.h5"))
    (part,) = (theirs / "checkpoints").glob(f"{head.stem}_rank_*")
    with h5py.File(part, "r+") as file:
        reference(file, "layers/V1/V", theirs.parent / "secret")
    reseal(part, theirs)
    crc, size = checksum(part)
    renamed = part.rename(part.with_name(f"{part.stem[:-8]}{crc:08x}.h5"))
    with h5py.File(head, "r+") as file:
        (about,) = json.loads(file.attrs["parts"])
        file.attrs["parts"] = json.dumps([{**about, "name": renamed.name, "size": size, "crc32": crc}])
    reseal(head, theirs)
    with pytest.raises(StorageError, match="refers to what is no part of the run"):
        load_checkpoint(head, 0, 3)


def test_a_checkpoint_whose_parts_are_elsewhere_is_refused(theirs: Path) -> None:
    head = max((theirs / "checkpoints").glob("step_?????????.h5"))
    with h5py.File(head, "r+") as file:
        file.attrs["parts"] = file.attrs["parts"].replace('"name": "', '"name": "../../elsewhere/')
    reseal(head, theirs)
    with pytest.raises(StorageError, match="it names a part elsewhere"):
        load_checkpoint(head, 0, 3)


@pytest.mark.parametrize(
    "arguments",
    [
        ("info", "out"),
        ("verify", "out"),
        ("verify", "out", "--repair"),
        ("merge", "out", "-o", "one.h5"),
        ("encode", "out", "images.npy", "-o", "codes.h5"),
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_commands_that_read_a_run_execute_no_plug_in(
    theirs: Path, finished: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    executed = theirs.parent / "executed"
    (theirs.parent / "evil.py").write_text(f"open({str(executed)!r}, 'w').close()\n")
    monkeypatch.chdir(theirs.parent)
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # which the command line replaces
    monkeypatch.setattr(sys, "argv", ["petabatch", *arguments])
    np.save("images.npy", np.random.default_rng(3).random((2, 12, 12, 3)).astype(np.float32))
    changed = {**unsealed(theirs / "params.json"), "plugins": [str(theirs.parent / "evil.py")]}
    (theirs / "params.json").write_text(
        sealed_json(changed, RunDirectory.open(finished).run_id, "params.json")
    )
    with h5py.File(theirs / "run.h5", "r+") as file:
        file.attrs["params"] = json.dumps(changed)
    reseal(theirs / "run.h5")
    with pytest.raises(SystemExit):
        main()
    assert "-o" not in arguments or Path(arguments[-1]).exists()
    assert not executed.exists()
