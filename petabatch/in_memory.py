"""Runs in memory: arrays in, arrays out, no files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from petabatch.arguments import whole_number
from petabatch.engine.assembly import Assembly
from petabatch.engine.engine import Engine
from petabatch.errors import ArgumentError
from petabatch.network.advice import log_advice
from petabatch.spec.network import Network


@dataclass(frozen=True)
class Result:
    """The result of a run in memory."""

    steps: Mapping[str, np.ndarray]
    """Recorded steps by path, as in the run file (`layers/V1/A`, `probes/energy/total`): int64 `[times]`."""
    recorded: Mapping[str, np.ndarray]
    """Recorded values by path, `[times, ...]`."""
    at: tuple[int, ...]
    """Steps at which `states` were taken."""
    states: Mapping[str, np.ndarray]
    """Every checkpointed array at those steps, by key such as `layers/V1/V` or
    `connections/dictionary/weights`: `[len(at), batch or 1, ...]`; `A` without its history."""

    def __repr__(self) -> str:
        at = f"; states after steps {', '.join(map(str, self.at))}" if self.at else ""
        lines = [f"<petabatch run in memory: {len(self.recorded)} recorded arrays{at}>"]
        lines += [
            f"  {path} [{', '.join(map(str, values.shape))}] {values.dtype}"
            for path, values in self.recorded.items()
        ]
        return "\n".join(lines)


def run(network: Network, at: Sequence[int] = (), threads: int | None = None) -> Result:
    """Run a network from start to end; return what it recorded, and its state after the steps `at`.

    Step 0 is the initial state. Raises ParamsError when the network is invalid, ArgumentError when it is none
    or when a step of `at` is outside the run.
    """
    if not isinstance(network, Network):
        hint = "pass its `network`" if hasattr(network, "network") else ""
        raise ArgumentError("network", "this is not a network", network, "a petabatch.Network", hint)
    wanted = tuple(whole_number("at", step) for step in at)
    engine = Assembly.of(network, threads=threads).planned(stops=tuple(sorted(set(wanted)))).engine()
    plan = engine.plan
    engine.start()
    log_advice(plan, engine.state.arrays)
    found: dict[int, dict[str, np.ndarray]] = {}
    steps: dict[str, list[np.ndarray]] = {}
    values: dict[str, list[np.ndarray]] = {}
    if 0 in wanted:
        found[0] = _snapshot(engine, 0)
    for step in engine.run():
        if step in wanted:
            found[step] = _snapshot(engine, step)
        if step % plan.flush == 0 or step == plan.length:
            for record in engine.recorder.take(step):
                steps.setdefault(record.stream.path, []).append(record.steps)
                values.setdefault(record.stream.path, []).append(record.values)
            engine.flushed()
    engine.close()
    missing = sorted(set(wanted) - set(found))
    if missing:
        raise ArgumentError("at", "steps outside of the run", missing, f"0 to {plan.length}")
    keys = found[wanted[0]] if wanted else ()
    return Result(
        {path: np.concatenate(parts) for path, parts in steps.items()},
        {path: np.concatenate(parts) for path, parts in values.items()},
        wanted,
        {key: np.stack([found[step][key] for step in wanted]) for key in keys},
    )


def _snapshot(engine: Engine, step: int) -> dict[str, np.ndarray]:
    """Copy the state; of the history of activities only that of `step`."""
    engine.collect()
    return {
        key: (array[:, step % array.shape[1]] if key.endswith("/A") else array).copy()
        for key, array in engine.state.saved().items()
    }
