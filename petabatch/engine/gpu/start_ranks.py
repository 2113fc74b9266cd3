"""A rank on each of several GPUs of this machine: the command that starts them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from petabatch.engine.gpu import detect
from petabatch.engine.gpu.choose import require
from petabatch.errors import ArgumentError, ResourceError, install
from petabatch.parallel.launch import launched_ranks

OPTION = "--gpus"


def start_ranks(gpus: str, given: Sequence[str]) -> None:
    """Replace this process by `mpirun` of the command, with one rank per GPU: their number, or "all".

    `given` are the arguments of the command. Returns where one GPU needs no other process. Raises
    ArgumentError for another word, ResourceError where there are fewer GPUs, or no mpirun.
    """
    if launched_ranks(os.environ) != 1:
        raise ArgumentError(OPTION, "a launcher has started the ranks already", gpus, "mpirun or --gpus")
    if gpus != "all" and not (gpus.isdecimal() and int(gpus) > 0):
        raise ArgumentError(OPTION, "this is no number of GPUs", gpus, "a number from 1 on, or all")
    require(1 if gpus == "all" else int(gpus))
    count = detect.count() if gpus == "all" else int(gpus)
    if count > 1:
        command = ranks_command(count, given)
        os.execv(command[0], command)


def ranks_command(ranks: int, given: Sequence[str]) -> list[str]:
    """Return the `mpirun` command for a number of ranks, without the option `--gpus`."""
    beside = Path(sys.executable).parent / "mpirun"
    mpirun = str(beside) if beside.exists() else shutil.which("mpirun")
    if mpirun is None:
        raise ResourceError(
            f"{OPTION} {ranks} starts a rank on each GPU, and there is no mpirun\n"
            f"    hint:     {install('mpi')}"
        )
    return [mpirun, "-n", str(ranks), sys.executable, "-m", "petabatch", *_without(given)]


def _without(given: Sequence[str]) -> list[str]:
    """Return arguments without `--gpus N` or `--gpus=N`, on a GPU."""
    kept, skip = [], False
    for word in given:
        if not skip and word != OPTION and not word.startswith(f"{OPTION}="):
            kept.append(word)
        skip = word == OPTION
    return [*kept, "--device", "gpu"]
