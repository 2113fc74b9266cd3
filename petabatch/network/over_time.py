"""Values over time: the network at a step, and when its numbers change."""

from __future__ import annotations

from collections.abc import Iterator

from petabatch.clock import fired, next_fire
from petabatch.errors import Problem
from petabatch.network.evaluation import of_updates
from petabatch.network.numbers import problem_of_values, with_value
from petabatch.spec.network import Network
from petabatch.spec.over_time import OverTime


def check_over_time(network: Network, problems: list[Problem]) -> None:
    """Check that each key is a number that may change, with valid values, by a clock that it has."""
    for path in network.over_time:
        problems += _problems(network, path)


def at_step(network: Network, step: int) -> Network:
    """Return the network with the values of a step; before step 1 they are those of step 1."""
    for path, value in values_at(network, step).items():
        network = with_value(network, path, value)
    return network


def values_at(network: Network, step: int) -> dict[str, float]:
    """Return the values of a step that change over time, by key path."""
    return {
        path: course.value(_time(network, path, course, max(step, 1)))
        for path, course in network.over_time.items()
    }


def next_change(network: Network, step: int) -> int | None:
    """Return the first step after `step` at whose start a value may be another one; None is never."""
    steps = [_next(network, path, course, step) for path, course in network.over_time.items()]
    return min((step for step in steps if step is not None), default=None)


def knots(network: Network) -> Iterator[int]:
    """Yield a step for each time of each table: between them values lie between theirs."""
    for path, course in network.over_time.items():
        yield from (_step(network, path, course, time) for time in course.at)


def changes_within_displays(network: Network, layer: str) -> bool:
    """Return whether numbers of a layer change while an image is displayed."""
    return any(
        path.startswith(f"layers.{layer}.")
        and course.by in ("step", "step of display")
        and not course.constant
        for path, course in network.over_time.items()
    )


def _problems(network: Network, path: str) -> Iterator[Problem]:
    course, learns = network.over_time[path], _learns(network, path)
    if path in network.slices or (network.sweep is not None and path in network.sweep.columns):
        yield Problem(path, "this key has values per slice as well", found=path, expected="one of the two")
        return
    if path.startswith("run."):
        yield Problem(path, "this cannot change over time", found=path, expected="a number of the dynamics")
        return
    found = problem_of_values(network, path, path, course.values, over_time=True)
    if found is not None:
        yield found
    elif course.by == "update" and not learns:
        yield Problem(
            f"{path}.by",
            "updates are counted for numbers of a learning rule",
            found='"update"',
            expected='"display", "step" or "step of display"',
        )
    elif network.run.until is not None and course.by in ("step", "step of display") and not learns:
        yield Problem(
            f"{path}.by",
            "with `run.until`, numbers must not change during a display",
            found=f'"{course.by}"',
            expected='"display"',
        )
    elif network.evaluate is not None and course.by != "step of display" and not of_updates(path):
        yield Problem(
            path,
            "an evaluation has no displays of the run to go by",
            found=f"values over time, and [evaluate] every {network.evaluate.every}",
            expected='by = "step of display", or no [evaluate]',
        )


def _learns(network: Network, path: str) -> bool:
    """Return whether a key is a number of a learning rule."""
    kind, name, *keys = path.split(".")
    if kind != "connections" or keys[:1] != ["learn"]:
        return False
    return network.connections[name].patch_owner is not None  # events of synapses are no updates


def _schedule(network: Network, path: str, course: OverTime) -> tuple[int, int]:
    """Return the schedule at whose steps a time of a table ends: its period in steps, and its offset."""
    display = network.run.display
    if course.by == "update" or (course.by is None and _learns(network, path)):
        owner = network.connections[path.split(".")[1]].patch_owner
        assert owner is not None
        assert owner.learn is not None
        return owner.learn.every.steps(display), owner.learn.offset
    return (1 if course.by == "step" else display), 0


def _time(network: Network, path: str, course: OverTime, step: int) -> int:
    """Return the time at a step, from 1."""
    if course.by == "step of display":
        return network.run.clock.place(step)
    period, offset = _schedule(network, path, course)
    return 1 + fired(period, step - 1, offset)


def _step(network: Network, path: str, course: OverTime, time: int) -> int:
    """Return the first step of a time."""
    if course.by == "step of display":
        return time
    period, offset = _schedule(network, path, course)
    first = next_fire(period, 0, offset)
    return 1 if time == 1 or first is None else first + (time - 2) * period + 1


def _next(network: Network, path: str, course: OverTime, step: int) -> int | None:
    now = _time(network, path, course, max(step, 1))
    following = course.next_time(now)
    if course.by == "step of display" and not course.constant:
        display = network.run.display
        begin = max(step, 1) - now
        return begin + (display + 1 if following is None or following > display else following)
    if following is None or not _schedule(network, path, course)[0]:  # it stands where weights never learn
        return None
    return _step(network, path, course, following)
