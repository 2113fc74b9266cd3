"""The part of a sweep that a job of an array makes."""

from __future__ import annotations

import pytest

from petabatch.errors import ArgumentError
from petabatch.waves.queue import Chunk, chunk_of

SLURM = {"SLURM_ARRAY_TASK_ID": "14", "SLURM_ARRAY_TASK_MIN": "10", "SLURM_ARRAY_TASK_COUNT": "8"}


@pytest.mark.parametrize(
    ("text", "environment", "expected"),
    [
        ("7/100", {}, Chunk(7, 100)),
        ("auto", SLURM, Chunk(5, 8)),
        ("auto", SLURM | {"SLURM_ARRAY_TASK_STEP": "2"}, Chunk(3, 8)),
        ("auto/20", SLURM, Chunk(14, 20)),
        ("auto/20", {"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_MIN": "0"}, Chunk(20, 20)),
        ("auto/20", {"PBS_ARRAY_INDEX": "20"}, Chunk(20, 20)),
        ("auto/20", {"PBS_ARRAYID": "1"}, Chunk(1, 20)),
    ],
)
def test_chunks_and_those_of_job_arrays(text: str, environment: dict[str, str], expected: Chunk) -> None:
    assert chunk_of(text, environment) == expected


@pytest.mark.parametrize(
    ("text", "environment", "message"),
    [
        ("7", {}, "not a part of a sweep"),
        ("0/4", {}, "no such part"),
        ("5/4", {}, "no such part"),
        ("1/0", {}, "no such part"),
        ("auto", {}, "no job of an array"),
        ("auto", {"PBS_ARRAY_INDEX": "3"}, "PBS does not tell"),
        ("auto/4", SLURM, "job 14 of 4"),
    ],
)
def test_what_is_no_chunk_is_an_error(text: str, environment: dict[str, str], message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as error:
        chunk_of(text, environment)
    assert error.value.exit_code == 2
