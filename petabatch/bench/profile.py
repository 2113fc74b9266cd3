"""Profile of a run: the clocks of its lanes, and the parts of a step as timed by the stepper."""

from __future__ import annotations

from petabatch.bench.trial import Trial, run


def profile(trial: Trial) -> tuple[dict[str, float], float | None, dict[str, float]]:
    """Return the share of the time on one thread of each part, and two fractions of units.

    They are that of active units at the end, and, of each lazily evaluated code, that computed in a step.

    The time of steps is divided in proportion to the parts of one step, timed on the state at the end.
    """
    engine = trial.engine(1)
    run(engine)
    spent: dict[str, float] = {}
    for clock in (engine.stopwatch, *(lane.stopwatch for lane in engine.lanes)):
        for name, seconds in clock.spent.items():
            spent[name] = spent.get(name, 0.0) + seconds
    whole = spent.pop("lane") + engine.stopwatch.spent.get("learning", 0.0)
    slices = [lane.stepper.computed() for lane in engine.lanes]
    codes = {code for one in slices for code in one}
    computed = {code: sum(one.get(code, 1.0) for one in slices) / len(slices) for code in sorted(codes)}
    steppers = [lane.stepper for lane in engine.dispatch.groups[0].calls[0]]
    parts, steps = steppers[0].time_parts(steppers), spent.pop("steps")
    found = {name: steps * time / sum(parts.values()) for name, time in parts.items()} | spent
    found["other"] = whole - sum(found.values())
    shares = {name: seconds / whole for name, seconds in found.items() if seconds != 0}
    return shares, trial.active(engine), computed
