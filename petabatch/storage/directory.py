"""The run directory: paths of its files, creation and opening."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.errors import DamagedError, Problem, RunDirectoryError, similar_path
from petabatch.storage import seal
from petabatch.storage.atomic import new_file, remove
from petabatch.storage.claim import LOG, Claim
from petabatch.storage.containment import refuse_links
from petabatch.storage.damaged import refuse_state
from petabatch.storage.files import (
    CHECKPOINTS,
    DATA,
    DESCRIPTION,
    EQUATIONS,
    INPUTS,
    PARAMS,
    PARTS,
    POINTS,
    RESOLVED,
    Output,
    lacking,
    output_in,
    refuse_replacement,
    resolved_value,
    temporary_name,
)
from petabatch.storage.format import Format, format_of
from petabatch.storage.seal import new_run_id, recorded_run_id, sealed_json

_ARRAYS = re.compile(r"in memory: [^\"]*, sha256 ([0-9a-f]{16})")
"""What stands in `params.json` for an array of `DATA`."""


@dataclass(frozen=True)
class RunDirectory:
    """What people open, `parts/`, `checkpoints/`, the params file as given, and `log.txt`."""

    path: Path
    run_id: str = field(default="", compare=False)
    """Identity of the run, with which its files are sealed; empty where `params.json` is damaged."""
    summaries: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Cached summaries of the segments, which are immutable, by file name."""

    @cached_property
    def output(self) -> Output:
        """Where it keeps what is recorded, also where that has been removed."""
        return output_in(self.path)

    @property
    def format(self) -> Format:
        """How what is recorded is written and read."""
        return format_of(self.output)

    @property
    def run_file(self) -> Path:
        """What is to be opened: `run.h5`, or what there is in its place."""
        return self.path / self.output.file

    @property
    def index(self) -> str:
        """The file, by its path below the directory, without which nothing can be read."""
        return self.output.index

    @property
    def parts(self) -> Path:
        """The directory of the segments to which `run.h5` refers."""
        return self.path / PARTS

    @property
    def checkpoints(self) -> Path:
        """The directory of the checkpoints."""
        return self.path / CHECKPOINTS

    @property
    def in_waves(self) -> bool:
        """Whether it is that of a sweep or a pool, with files of points."""
        return (self.path / POINTS).is_dir()

    @property
    def log(self) -> Path:
        """The log file."""
        return self.path / LOG

    @property
    def params(self) -> Path:
        """The params file as it was given."""
        return next(
            (self.path / name for name in PARAMS if (self.path / name).exists()), self.path / PARAMS[0]
        )

    @property
    def params_text(self) -> str:
        """The params file as it was given, as far as it can be read: nothing depends on it."""
        try:
            text = self.params.read_bytes().decode("utf-8", "backslashreplace")
        except OSError:
            return ""
        return text.replace("\0", r"\x00")

    @property
    def resolved(self) -> Path:
        """The resolved params, with overrides and defaults, as JSON: what a resumed run uses."""
        return self.path / RESOLVED

    @property
    def equations(self) -> Path:
        """What was derived of the equations of the network; there is none without equations."""
        return self.path / EQUATIONS

    @property
    def started_from_another(self) -> bool:
        """Whether the run began with the state of another, whose steps it does not record.

        It may have if that cannot be read: no steps are lost that may never have been recorded.
        """
        return resolved_value(self.path, "run", "start_from", unknown=True) is not None

    @property
    def inputs(self) -> Path:
        """Fingerprints of the input files, as JSON; see `storage.inputs`."""
        return self.path / INPUTS

    @property
    def data(self) -> Path:
        """The directory of the arrays that the run was given in memory."""
        return self.path / DATA

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        params_text: str,
        params_suffix: str = ".toml",
        force: bool = False,
        resolved: Mapping[str, object] | None = None,
        inputs: Mapping[str, object] | None = None,
        arrays: Mapping[str, np.ndarray] | None = None,
        claim: Claim | None = None,
        folders: Sequence[str] = (),
        equations: Mapping[str, object] | None = None,
        fill: Callable[[RunDirectory], None] = lambda made: None,
    ) -> RunDirectory:
        """Create a new run directory; `force` replaces an existing one. Called on rank 0 only.

        `arrays` are those that the run was given in memory, by their names in `resolved`. `claim` claims the
        new directory before others can see it. `folders` are made in it beside those of every run.
        `equations` is what was derived of those of the network. `fill` writes what else is in it before
        others can see it, and while the one that it replaces can still be read.

        Raises RunDirectoryError when `path` exists (without `force`), is not recognisably a run directory or
        is that of a run in progress (with `force`), or cannot be written, and what `fill` raises. After an
        error nothing has changed on disk.
        """
        target = Path(path).absolute()
        exists = os.path.lexists(target)
        if exists:
            refuse_replacement(target, force)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        except OSError as error:
            raise _unwritable(target, error) from error
        replaced = Claim()
        try:
            fresh, old = work / "new", work / "old"
            for folder in (fresh, *(fresh / name for name in (PARTS, CHECKPOINTS, *folders))):
                folder.mkdir()
            (fresh / f"params{params_suffix}").write_text(params_text, encoding="utf-8")
            made = cls(fresh, new_run_id())
            made.write(RESOLVED, resolved or {})
            made.write(INPUTS, inputs or {})
            if equations:
                made.write(EQUATIONS, equations)
            (fresh / LOG).touch()
            if arrays:
                (fresh / DATA).mkdir()
            for name, array in (arrays or {}).items():
                with (fresh / DATA / f"{name}.npy").open("w+b") as file:
                    np.save(file, array, allow_pickle=False)
                    file.flush()
                    seal.seal(file.fileno(), made.run_id)
            fill(made)
            if claim is not None:
                claim.take(fresh, target)
            if exists:
                if (target / LOG).is_file() and not (target / LOG).is_symlink():
                    replaced.take(target)
                os.rename(target, old)
            try:
                os.rename(fresh, target)
            except OSError:
                if exists:
                    os.rename(old, target)
                raise
        except OSError as error:
            raise _unwritable(target, error) from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
            replaced.release()
        return cls(target, made.run_id)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunDirectory:
        """Return the run directory at `path`; raises RunDirectoryError when there is none.

        Raises StorageError when a symbolic link in it leads out of it.
        """
        target = Path(path).absolute()
        if not target.exists():
            hint = similar_path(target, lambda path: not lacking(path))
            raise RunDirectoryError(Problem("", "no such run directory", hint=hint).render(str(target)))
        if not target.is_dir():
            refuse_state(target)
            run = next((folder for folder in target.parents if not lacking(folder)), None)
            hint = f"the file is part of the run directory {run}" if run is not None else ""
            if target.suffix in (".toml", ".py") and run is None:
                hint = f"a params file is run by: petabatch run {path}"
            problem = Problem("", "this is a file, not a run directory", hint=hint)
            raise RunDirectoryError(problem.render(str(target)))
        if lacks := lacking(target):
            missing = f"it has no {', no '.join(lacks)}"
            if not (target / INPUTS).is_file():
                raise RunDirectoryError(f"{target}: not a run directory: {missing}")
            raise RunDirectoryError(
                f"{target}: this run is damaged: {missing}\n"
                "    hint:     restore what is missing, or make an empty folder in its place; "
                "`petabatch verify` then tells what is lost"
            )
        refuse_links(target)
        return cls(target, recorded_run_id(target) or "")

    def write(self, name: str, table: Mapping[str, object]) -> None:
        """Write or replace a JSON file of the run, with its seal; called on rank 0 only.

        Raises StorageError.
        """
        with new_file(self.path / name) as file:
            file.write(sealed_json(table, self.run_id, Path(name).name).encode())

    def initial_files(self) -> list[str]:
        """Return the names of the files with which the run started, and which it needs to be resumed."""
        derived = [EQUATIONS] if self.equations.is_file() else []
        arrays = {file.name for file in self.data.glob("*.npy")}
        with suppress(OSError):  # those that are missing
            text = self.resolved.read_text(encoding="utf-8", errors="replace")
            arrays |= {f"{digest}.npy" for digest in _ARRAYS.findall(text)}
        return [RESOLVED, INPUTS, *derived, *(f"{DATA}/{name}" for name in sorted(arrays))]

    def verify(self) -> None:
        """Raise DamagedError if a file that a resumed run needs is not as it was written.

        One without a seal may have been edited.
        """
        described = [DESCRIPTION] if (self.path / DESCRIPTION).exists() else []
        for name in (*self.initial_files(), *described):
            try:
                seal.verify(self.path, name)
            except DamagedError as error:
                raise DamagedError(
                    f"{error}\n"
                    "    hint:     restore it; to change params, start a run from this one (run.start_from)"
                ) from None

    def clean(self) -> None:
        """Remove unfinished files of a killed run; called on rank 0, which has claimed it alone."""
        for folder in (self.path, self.parts, self.checkpoints, self.path / POINTS):
            for leftover in folder.glob(temporary_name("*")):
                remove(leftover)


def _unwritable(path: Path, error: OSError) -> RunDirectoryError:
    free = ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        with suppress(OSError):
            stat = os.statvfs(path.parent)
            free = f" ({stat.f_bavail * stat.f_frsize:,} bytes free)"
    return RunDirectoryError(f"{path}: cannot create the run directory: {error.strerror}{free}")
