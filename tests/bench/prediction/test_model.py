"""The time of a display on many ranks, against values computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from petabatch.bench.prediction.calibration import Calibration, PartTimes
from petabatch.bench.prediction.collectives import gather, tree
from petabatch.bench.prediction.link import Link
from petabatch.bench.prediction.model import by_batch, by_parts
from petabatch.bench.prediction.portions import Portions
from petabatch.bench.prediction.traffic import Traffic, Update
from petabatch.network.messages import Message, Messages
from petabatch.network.possible_parts import Axis
from petabatch.spec.network import Parallel

LINK = Link(1e-3, 1e6)
WHOLE = Portions(arithmetic=1.0, images=1.0, recordings=1.0, products=1.0, weights=1.0)
TRAFFIC = Traffic(
    batch=4, display=10, updates=(Update(1.0, 400, 8000),), update_events=1.0, events=2.0, learned=1.0,
    recorded=3.0, overlapped=False, together=1, messages=Messages(), portions=WHOLE,
)  # fmt: skip
CALIBRATION = Calibration(
    network="", title="", threads=1, slices=[[0.1, 0.2, 0.3, 0.6], [0.4, 0.4, 0.2, 0.2]], image=1.0,
    learning=2.0, recording=0.5, update=5.0, update_slice=0.25, event=0.125, addition=0.0, reduction=0.0,
    part_times={
        "features": [PartTimes([2, 4, 8], {2: 0.6, 4: 0.4}), PartTimes([3, 9], {3: 0.7, 9: 0.5})],
        "rows": [PartTimes([2, 4], {4: 0.3})],
    },
    machine={},
)  # fmt: skip


def part(features: int = 1, rows: int = 1, **sent: Sequence[int]) -> Traffic:
    """Return the traffic of a rank with a part of everything: partial sums and borders, or what is given."""
    update, messages = TRAFFIC.updates[0], sent or {"summed": [100 // rows], "borders": [30, 50]}
    return replace(
        TRAFFIC,
        updates=(Update(1.0, update.exponents // features, update.integers // features),),
        messages=Messages(**{kind: tuple(Message(n, 1) for n in ones) for kind, ones in messages.items()}),
        portions=Portions(
            arithmetic=0.9, images=1 / rows, recordings=1 / rows, products=1 / (features * rows),
            weights=1 / features,
        ),
    )  # fmt: skip


def test_one_rank_makes_all_slices() -> None:
    found = by_batch(TRAFFIC, CALIBRATION, LINK, 1)
    # steps of both displays: 12 each; in addition, 4 slices of 1 + 2 + 3 * 0.5; two meetings
    assert found.computing == pytest.approx(12 + 18 + 0.25)
    assert found.updating == pytest.approx(5 + 4 * 0.25)
    assert (found.communication, found.sent, found.messages) == (0, 0, 0)
    assert found.efficiency(found) == 1


def test_the_slowest_rank_counts_in_each_display() -> None:
    found = by_batch(TRAFFIC, CALIBRATION, LINK, 2)
    # 0.3 + 0.6 in the first display, 0.4 + 0.4 in the second
    assert found.computing == pytest.approx(10 * (0.9 + 0.8) / 2 + 2 * 4.5 + 0.25)
    assert found.updating == pytest.approx(5 + 2 * 0.25)
    meeting = tree(8, 2).seconds(LINK) + gather(128, 2).seconds(LINK)
    update = (1 * 1e-3 + 400e-6) + (2 * 1e-3 + 8000e-6)
    assert found.communication == pytest.approx(update + 2 * meeting)
    assert found.sent == found.sent_per_update == 8400


def test_threads_share_the_slices_of_a_rank() -> None:
    found = by_batch(TRAFFIC, replace(CALIBRATION, threads=2), LINK, 2)
    # slices of 7.5 and 10.5 on the two threads of the slower rank, then two of 8.5
    assert found.computing == pytest.approx((10.5 + 8.5) / 2 + 0.25)
    longest = by_batch(TRAFFIC, replace(CALIBRATION, threads=64), LINK, 1)
    assert longest.computing == pytest.approx((6 + 4) / 2 + 4.5 + 0.25)


def test_ranks_without_slices_are_idle() -> None:
    four, eight = (by_batch(TRAFFIC, CALIBRATION, LINK, ranks) for ranks in (4, 8))
    assert eight.seconds == four.seconds
    alone = by_batch(TRAFFIC, CALIBRATION, LINK, 1)
    assert eight.efficiency(alone) == four.efficiency(alone) / 2


def test_slices_beyond_those_measured_are_like_them() -> None:
    alone, many = (by_batch(replace(TRAFFIC, batch=batch), CALIBRATION, LINK, 1) for batch in (4, 4000))
    assert many.computing == pytest.approx(1000 * alone.computing, rel=0.05)
    # each rank has slices of its own, so that they are not equally fast
    two = by_batch(replace(TRAFFIC, batch=4000), CALIBRATION, LINK, 1000)
    assert two.computing > 1.1 * alone.computing


def test_overlapped_sums_are_hidden_behind_steps() -> None:
    late = replace(TRAFFIC, overlapped=True)
    exact, found = (by_batch(one, CALIBRATION, LINK, 2) for one in (TRAFFIC, late))
    meetings = 2 * (tree(8, 2).seconds(LINK) + gather(128, 2).seconds(LINK))
    assert found.communication == pytest.approx(meetings)
    assert found.sent == exact.sent
    slow = Link(100.0, 1e6)  # longer than the steps
    assert by_batch(late, CALIBRATION, slow, 2).communication > by_batch(late, CALIBRATION, LINK, 2).seconds


def meetings(ranks: int) -> tuple[float, int]:
    both = tree(8, ranks), gather(128, ranks)
    return 2 * sum(one.seconds(LINK) for one in both), 2 * sum(one.messages for one in both)


def test_split_features_send_in_each_step_and_learn_apart() -> None:
    found = by_parts(part(8), CALIBRATION, LINK, Parallel(features=8), 8)
    # a line in 1 / parts through 0.6 at 2 and 0.4 at 4: 0.2 + 0.8 / parts; 1.2 and 1.2 seconds of four slices
    steps = 10 * 1.2 * (0.2 + 0.8 / 8)
    assert found.computing == pytest.approx(steps + 4 * (1 + 2 / 8 + 3 * 0.5) + 0.25)
    assert found.updating == pytest.approx((5 + 4 * 0.25) / 8)
    assert found.sent == 10 * 7 * 400
    assert found.messages == 10 * 4 + meetings(8)[1]
    assert found.communication == pytest.approx(10 * 4 * (1e-3 + 7 * 100e-6) + meetings(8)[0])
    assert (found.slices, found.parts) == (4, 8)


def test_split_rows_exchange_borders_with_two_neighbours_and_sum_all_weights() -> None:
    found = by_parts(part(rows=4), CALIBRATION, LINK, Parallel(rows=4), 4)
    steps = 10 * 1.2 * 0.3
    assert found.computing == pytest.approx(steps + 4 * (1 / 4 + 2 / 4 + 3 * 0.5 / 4) + 0.25)
    assert found.updating == pytest.approx(5 + 4 * 0.25)
    update = tree(400, 4, 4), tree(8000, 4)
    assert found.sent == 10 * 4 * 2 * (30 + 50) + sum(one.sent for one in update)
    assert found.messages == 10 * 4 * 2 + sum(one.messages for one in update) + meetings(4)[1]
    of_steps = 10 * 4 * (2 * 1e-3 + 2 * 80e-6)
    of_update = sum(one.seconds(LINK) for one in update)
    assert found.communication == pytest.approx(of_steps + of_update + meetings(4)[0])
    two = by_parts(
        part(rows=2), CALIBRATION, LINK, Parallel(rows=2), 2
    )  # a line through the whole and 0.3 at 4
    assert two.computing < by_batch(TRAFFIC, CALIBRATION, LINK, 1).computing
    assert CALIBRATION.part(Parallel(rows=2)) == pytest.approx(0.3 + 0.7 / 3)
    assert two.sent == 10 * 4 * 80 + sum(one.sent for one in (tree(400, 2, 4), tree(8000, 2)))


@pytest.mark.parametrize(("axis", "learners", "of_weights"), [("features", 2, 2), ("rows", 4, 1)])
def test_groups_of_ranks_have_a_part_of_the_batch(axis: Axis, learners: int, of_weights: int) -> None:
    half = part(features=2) if axis == "features" else part(rows=2)
    found = by_parts(half, CALIBRATION, LINK, Parallel.model_validate({axis: 2}), 4)
    assert found.slices == 2
    update = tree(400 // of_weights, learners, 4), tree(8000 // of_weights, learners)
    each = 100 if axis == "features" else 80
    assert found.sent == 10 * 2 * each + sum(one.sent for one in update)
    assert found.updating == pytest.approx((5 + 2 * 0.25) / of_weights)


def test_features_of_tiles_are_added_up_and_tiles_exchange_rows() -> None:
    found = by_parts(part(2, 4), CALIBRATION, LINK, Parallel(features=2, rows=4), 16)
    # the part of a tile of 0.3, and of that the 0.6 of half of the features; two slices of the slower group
    steps = 10 * (0.9 + 0.8) / 2 * 0.6 * 0.3
    assert (found.split, found.parts, found.slices) == ("features and rows", 8, 2)
    assert found.computing == pytest.approx(steps + 2 * (1 / 4 + 2 / 8 + 3 * 0.5 / 4) + 0.25)
    assert found.updating == pytest.approx((5 + 2 * 0.25) / 2)
    update = tree(400 // 2, 8, 4), tree(8000 // 2, 8)
    assert found.sent == 10 * 2 * (100 / 4 + 2 * (30 + 50)) + sum(one.sent for one in update)
    of_steps = 10 * 2 * (3 * 1e-3 + (25 + 2 * 80) * 1e-6)
    of_update = sum(one.seconds(LINK) for one in update)
    assert found.communication == pytest.approx(of_steps + of_update + meetings(16)[0])


def test_slices_in_one_call_send_one_message_and_threads_wait_side_by_side() -> None:
    half = part(2)
    one = by_parts(half, CALIBRATION, LINK, Parallel(features=2), 2)
    joined = by_parts(replace(half, together=4), CALIBRATION, LINK, Parallel(features=2), 2)
    assert joined.sent == one.sent
    assert one.communication - joined.communication == pytest.approx(10 * 3 * 1e-3)
    beside = by_parts(half, replace(CALIBRATION, threads=2), LINK, Parallel(features=2), 2)
    assert one.communication - beside.communication == pytest.approx(10 * 2 * 1e-3)


def test_what_is_gathered_is_sent_to_all_other_ranks_as_often_as_it_is_made() -> None:
    sent = part(features=4, rows=2, gathered=[10], gathered_rows=[20])
    often = Messages(sent.messages.gathered, sent.messages.gathered, (), (Message(20, 5),))
    found, more = (
        by_parts(one, CALIBRATION, LINK, Parallel(features=4, rows=2), 8)
        for one in (sent, replace(sent, messages=often))
    )
    in_update = tree(400 // 4, 2, 4), tree(8000 // 4, 2)
    assert found.sent == 10 * 4 * (3 * 10 + 20) + sum(one.sent for one in in_update)
    assert more.sent - found.sent == 10 * 4 * (3 * 10 - 20 + 20 / 5)
    assert more.messages - found.messages == 10 * 4 * (1 - 1 + 1 / 5)


def test_numbers_of_parts_are_interpolated_among_those_alike() -> None:
    assert CALIBRATION.part(Parallel(features=3)) == 0.7
    assert CALIBRATION.part(Parallel(features=9, rows=4)) == pytest.approx(0.5 * 0.3)
    assert CALIBRATION.part(Parallel(features=4)) == pytest.approx(0.4)
    assert CALIBRATION.part(Parallel(features=5)) is CALIBRATION.part(Parallel(rows=3)) is None


def test_steps_of_parts_that_were_not_measured_are_estimated_by_their_arithmetic() -> None:
    found = by_parts(part(5), CALIBRATION, LINK, Parallel(features=5), 5)
    assert found.computing == pytest.approx(10 * 1.2 * 0.9 + 4 * (1 + 2 / 5 + 3 * 0.5) + 0.25)
    assert not found.measured
    assert by_parts(part(4), CALIBRATION, LINK, Parallel(features=4), 4).measured


def test_what_is_whole_on_each_rank_takes_the_time_of_the_whole() -> None:
    whole = replace(part(2, 4), portions=replace(WHOLE, images=0.25))
    found = by_parts(whole, CALIBRATION, LINK, Parallel(features=2, rows=4), 8)
    assert found.computing == pytest.approx(10 * 1.2 * 0.6 * 0.3 + 4 * (1 / 4 + 2 + 3 * 0.5) + 0.25)
    assert found.updating == pytest.approx(5 + 4 * 0.25)


SECONDS = st.floats(0, 10)


@given(
    st.integers(1, 5000),
    st.integers(1, 300),
    st.lists(st.lists(st.floats(1e-6, 1), min_size=3, max_size=3), min_size=1, max_size=3),
    st.floats(0, 1e-2),
    st.floats(1e5, 1e11),
)
def test_a_slower_link_never_makes_a_display_faster(
    ranks: int, batch: int, slices: list[list[float]], latency: float, bandwidth: float
) -> None:
    traffic, calibration = replace(TRAFFIC, batch=batch), replace(CALIBRATION, slices=slices)
    ways = [(traffic, partial(by_batch, ranks=ranks))]
    for one in (Parallel(features=2), Parallel(rows=2), Parallel(features=2, rows=2)):
        own = replace(part(one.features, one.rows), batch=batch)
        ways.append((own, partial(by_parts, parallel=one, ranks=one.parts * ranks)))
    for own, predict in ways:
        found = predict(own, calibration, link=Link(latency, bandwidth))
        assert predict(own, calibration, link=Link(2 * latency, bandwidth)).seconds >= found.seconds
        assert predict(own, calibration, link=Link(latency, bandwidth / 2)).seconds >= found.seconds
        assert 0 <= found.share <= 1
    alone = by_batch(traffic, calibration, Link(latency, bandwidth), 1)
    many = by_batch(traffic, calibration, Link(latency, bandwidth), ranks)
    assert many.efficiency(alone) <= 1 + 1e-9
