"""Profile of a run: the clocks of its lanes, and the parts of a step as timed by the stepper."""

from __future__ import annotations

from petabatch.bench.trial import Trial, run


def profile(trial: Trial) -> tuple[dict[str, float], float | None, dict[str, float]]:
    """Return the share of the time on one thread of each part, and two fractions of units.

    They are that of active units at the end, and, of each lazily evaluated code, that computed in a step.

    The time of compiled steps is divided in proportion to the parts of one step, timed on the state at the
    end. A kernel that cannot be timed alone, such as the membrane update of dense steps, gets the remainder.
    """
    engine = trial.engine(1)
    run(engine)
    spent: dict[str, float] = {}
    for clock in (engine.clock, *(lane.clock for lane in engine.lanes)):
        for name, seconds in clock.spent.items():
            spent[name] = spent.get(name, 0.0) + seconds
    whole = spent.pop("lane") + engine.clock.spent.get("learning", 0.0)
    slices = [lane.stepper.computed() for lane in engine.lanes]
    codes = {code for one in slices for code in one}
    computed = {code: sum(one.get(code, 1.0) for one in slices) / len(slices) for code in sorted(codes)}
    steppers = [lane.stepper for lane in engine.groups[0].all]
    parts = steppers[0].time_parts(steppers)
    found = _divide(spent.pop("steps"), dict(parts.seconds), parts.rest, trial.slice_steps) | spent
    found["other"] = whole - sum(found.values())
    shares = {name: seconds / whole for name, seconds in found.items() if seconds != 0}
    return shares, trial.active(engine), computed


def _divide(steps: float, parts: dict[str, float], rest: str, slice_steps: int) -> dict[str, float]:
    """Divide the seconds of all steps by the seconds of the parts of one; `rest` gets what is left."""
    if not rest:
        return {name: steps * seconds / sum(parts.values()) for name, seconds in parts.items()}
    found = {name: seconds * slice_steps for name, seconds in parts.items()}
    left = steps - sum(found.values())
    # On a busy machine kernels may take longer alone than within the steps; the division is then meaningless.
    return {**found, rest: left} if left > 0 else {"steps": steps}
