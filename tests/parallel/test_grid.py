"""The grid of ranks: what is said where the ranks do not fill it."""

from __future__ import annotations

import pytest

from petabatch.errors import ResourceError
from petabatch.parallel.comm import Serial
from petabatch.parallel.grid import grid
from petabatch.spec.network import Parallel


@pytest.mark.parametrize(
    ("parallel", "ranks", "expected", "hint"),
    [
        (Parallel(batch=3), 2, "3 for the batch", "change mpirun -n, or leave out parallel.batch"),
        (
            Parallel(features=2),
            3,
            "2 for the features, or a multiple",
            "change mpirun -n, or set parallel.features=1 not to split layers "
            "(`petabatch resume --features 1`)",
        ),
        (
            Parallel(batch=3, rows=2),
            4,
            "2 for the rows times 3 for the batch",
            "change mpirun -n, leave out parallel.batch, or set parallel.rows=1 not to split layers "
            "(`petabatch resume --rows 1`)",
        ),
        (
            Parallel(batch=1, features=2, rows=2),
            2,
            "4 for the features and rows times 1 for the batch",
            "change mpirun -n, or set parallel.features=1 and parallel.rows=1 not to split layers "
            "(`petabatch resume --features 1 --rows 1`)",
        ),
    ],
)
def test_ranks_that_do_not_fill_the_grid_are_told_what_would(
    parallel: Parallel, ranks: int, expected: str, hint: str
) -> None:
    world = Serial()
    world.size = ranks
    with pytest.raises(ResourceError) as raised:
        grid(world, parallel.batch, parallel.parts, parallel.names)
    assert str(raised.value).splitlines()[1:] == [
        f"    found:    {ranks}",
        f"    expected: {expected}",
        f"    hint:     {hint}",
    ]
