"""The table of what the time of each rank went into."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from petabatch.report.times import rank_times


def lines(ranks: int) -> list[str]:
    """Return the table of ranks of which each waited one second more than the next."""
    names = ("all", "steps", "files", "waiting for ranks")
    times = {name: [100.0] * ranks for name in names} | {"steps": [50.0] * ranks, "files": [5.0] * ranks}
    times["waiting for ranks"] = [float(ranks - rank) for rank in range(ranks)]
    hosts = [f"node{rank // 2}" for rank in range(ranks)]
    run = SimpleNamespace(attributes={"rank_times": times, "hosts": hosts})
    return list(rank_times(cast(Any, run)))


def test_each_rank_has_a_row_of_shares_that_add_up_to_all() -> None:
    *_, heading, first, second = lines(2)
    columns = ["rank", "host", "computing", "images", "ranks", "communication", "files", "kernels", "other"]
    assert heading.split() == columns
    for rank, (line, waiting, other) in enumerate(((first, 2, 43), (second, 1, 44))):
        shares = (50, 0, waiting, 0, 5, 0, other)
        assert " ".join(line.split()) == f"{rank} node0 " + " ".join(f"{share:.1f} %" for share in shares)


def test_of_many_ranks_those_are_shown_for_which_the_others_waited() -> None:
    found = lines(40)
    assert "the 16 of 40 that waited least" in " ".join(" ".join(found).split())
    assert [int(line.split()[0]) for line in found[-16:]] == list(range(24, 40))


def test_a_run_without_ranks_has_no_table() -> None:
    run = SimpleNamespace(attributes={})
    assert not list(rank_times(cast(Any, run)))
