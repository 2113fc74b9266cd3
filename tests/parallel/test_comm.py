"""Ranks: shares of the batch, detection of launchers, communication, and joint termination."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from petabatch.errors import ResourceError
from petabatch.parallel.comm import Serial, share, shares
from petabatch.parallel.consistency import RanksDisagree, assert_identical
from petabatch.parallel.launch import connect, launched_ranks
from support import rank_program
from support.forked import forked_code_on_ranks
from support.mpirun import mpirun
from support.processes import PATIENCE

PROGRAM = rank_program.__file__


def alone(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program without a launcher."""
    return subprocess.run(
        [sys.executable, PROGRAM, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_shares_cover_the_batch_once_and_evenly() -> None:
    for batch in range(1, 20):
        for size in range(1, batch + 1):
            found = shares(batch, size)
            assert [slice for lo, hi in found for slice in range(lo, hi)] == list(range(batch))
            assert {hi - lo for lo, hi in found} <= {batch // size, -(-batch // size)}
            assert found == [share(batch, rank, size) for rank in range(size)]


def test_more_ranks_than_slices_are_refused() -> None:
    with pytest.raises(ResourceError, match="more ranks than slices\n    found:    4 ranks, 3 slices"):
        share(3, 0, 4)


@pytest.mark.parametrize(
    ("environment", "ranks"),
    [
        ({}, 1),
        ({"PMI_SIZE": "4", "PMI_RANK": "0", "MPI_LOCALNRANKS": "2"}, 4),
        ({"PMI_SIZE": "1", "PMI_RANK": "0", "MPI_LOCALNRANKS": "1"}, 1),
        ({"OMPI_COMM_WORLD_SIZE": "3", "PMIX_RANK": "0"}, 3),
        ({"PMI_RANK": "1"}, 0),
        ({"PALS_RANKID": "0"}, 0),
        # a batch script of a job of 8 tasks is one process; a step of srun is as many as it says
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, 1),
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"}, 4),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "PMIX_RANK": "0"}, 1),
        # mpirun inside a job starts one daemon a node as a step; its own variables say how many ranks
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "PMI_SIZE": "16"}, 16),
    ],
)
def test_a_launcher_is_found_in_its_environment(environment: Mapping[str, str], ranks: int) -> None:
    assert launched_ranks(environment) == ranks


def test_a_single_process_never_loads_mpi() -> None:
    assert alone("silent").stdout == "ranks 1 mpi4py loaded: False\n"


def test_no_mpi_makes_a_launched_process_run_by_itself() -> None:
    assert alone("silent", "no-mpi", PMI_SIZE="4").stdout == "ranks 1 mpi4py loaded: False\n"


def test_mpi_without_its_library_names_the_paths_tried() -> None:
    ended = alone("silent", "mpi", MPI4PY_LIBMPI="/nowhere/libmpi.so.12")
    assert ended.returncode != 0
    assert "ResourceError: MPI was requested but is not available" in ended.stderr
    assert "/nowhere/libmpi.so.12" in ended.stderr
    assert "pip install '.[mpi]' in a checkout" in ended.stderr


def test_mpi_without_mpi4py_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ResourceError, match=r"pip install '\.\[mpi\]' in a checkout"):
        connect(True)


def test_bits_are_compared_by_hash() -> None:
    class SecondDiffers(Serial):
        def gather(self, value: dict[str, str]) -> list[dict[str, str]]:
            return [value, {name: "0" if name == "connection e" else one for name, one in value.items()}]

    weights = {"connection d": np.ones(3), "connection e": np.zeros((2, 2))[:, ::2]}
    assert_identical(Serial(), weights)
    with pytest.raises(RanksDisagree, match="connection e: differs between ranks") as error:
        assert_identical(SecondDiffers(), weights)
    assert "connection d" not in str(error.value)


@pytest.mark.mpi
@pytest.mark.parametrize(
    "ranks", [3, *(pytest.param(number, marks=pytest.mark.long) for number in (1, 2, 4))]
)
def test_several_ranks_sum_to_the_bits_of_one(ranks: int, capsys: pytest.CaptureFixture[str]) -> None:
    rank_program.sums(Serial())
    expected = capsys.readouterr().out
    blocking, overlapped = expected.split()
    assert blocking == overlapped
    ended = forked_code_on_ranks(ranks, PROGRAM, "sums", "mpi")
    assert (ended.returncode, ended.stdout) == (0, expected), ended.stderr


@pytest.mark.mpi
def test_ranks_that_poll_sum_to_the_bits_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    rank_program.sums(Serial())
    blocking, _ = capsys.readouterr().out.split()
    assert forked_code_on_ranks(2, PROGRAM, "polled").stdout.split() == [blocking]


@pytest.mark.mpi
def test_a_rank_that_waits_for_a_slower_one_leaves_it_the_core() -> None:
    busy, waited = map(float, forked_code_on_ranks(2, PROGRAM, "idle").stdout.split())
    assert busy < 0.5 * max(1, waited)  # it waits for less if it stands still itself


@pytest.mark.mpi
def test_the_time_until_a_late_rank_comes_to_a_sum_does_not_count_as_communication(tmp_path: Path) -> None:
    told = forked_code_on_ranks(2, PROGRAM, "late", "mpi", tmp_path / "waits").stdout
    waits = [tuple(map(float, line.split())) for line in told.splitlines()]
    assert len(waits) == 4
    assert all(for_ranks > 0.2 for for_ranks, _ in waits)
    assert min(communication for _, communication in waits) < 0.1  # of all, unless the machine stands still


@pytest.mark.mpi
def test_ranks_talk() -> None:
    ended = forked_code_on_ranks(4, PROGRAM, "collectives")
    assert (ended.returncode, ended.stdout) == (0, "all well\n"), ended.stderr


@pytest.mark.mpi
def test_compiled_code_sends_and_receives_and_an_error_is_raised_afterwards() -> None:
    ended = forked_code_on_ranks(3, PROGRAM, "messages")
    assert (ended.returncode, ended.stdout) == (0, "all well\n"), ended.stderr


@pytest.mark.mpi
@pytest.mark.parametrize("level", ["serialized", "multiple"])
def test_slices_are_shared_where_threads_may_send_at_the_same_time(level: str) -> None:
    ended = mpirun(2, PROGRAM, "threaded", options=("-genv", "MPI4PY_RC_THREAD_LEVEL", level))
    assert ended.returncode == 0, ended.stderr
    told, *refusal = ended.stdout.splitlines()
    assert told == str(level == "multiple")
    expected = ["found:    a thread level below MPI_THREAD_MULTIPLE", "expected: MPI_THREAD_MULTIPLE"]
    assert [line.strip() for line in refusal[1:3]] == ([] if level == "multiple" else expected)


@pytest.mark.mpi
def test_one_rank_under_a_launcher_does_not_load_mpi() -> None:
    assert mpirun(1, PROGRAM, "silent").stdout == "ranks 1 mpi4py loaded: False\n"


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("deed", "messages"),
    [
        (
            "raising",
            [
                f"rank 1 of 3 (on {platform.node()}): Traceback",
                "ValueError: the reader ran out of images",
            ],
        ),
        ("flipped", ["connection e: differs between ranks"]),
        ("not_finite", ["connection d: not finite in slice 5"]),
    ],
)
def test_one_rank_that_fails_ends_all_with_its_message(deed: str, messages: list[str]) -> None:
    ended = forked_code_on_ranks(3, PROGRAM, deed)
    assert ended.returncode != 0
    assert all(message in ended.stderr for message in messages), ended.stderr


@pytest.mark.mpi
def test_one_rank_that_is_killed_ends_all() -> None:
    ended = mpirun(3, PROGRAM, "killed")
    assert ended.returncode != 0
    assert "Killed (signal 9)" in ended.stderr + ended.stdout


@pytest.mark.mpi
def test_a_launcher_of_another_mpi_is_refused() -> None:
    ended = alone("silent", OMPI_COMM_WORLD_SIZE="2")
    assert ended.returncode != 0
    assert "the launcher started 2 ranks, but each sees only itself" in ended.stderr
