"""A network's program against its dense products: processor time of a step of one slice, in short turns.

    python benchmarks/programs.py two_layer.toml [run.batch=4 ...]

Each turn times 50 steps of one slice and the `sgemm` of all its patch connections (of 16 slices at a time
where that is faster), on one thread; shown are medians of the turns and quartiles. The last lines say where
the time goes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from petabatch.engine.engine import Engine
from petabatch.engine.steppers.program import ProgramStepper
from petabatch.engine.steppers.program_tables import Tables
from petabatch.geometry import Patches
from petabatch.network.graph import build
from petabatch.network.plan import schedule
from petabatch.network.program import find_program
from petabatch.parallel.comm import Serial
from petabatch.spec.load import load

TURNS, STEPS, WARM = 40, 50, 300


def used(job: Callable[[], object]) -> float:
    before = time.process_time()
    job()
    return time.process_time() - before


def products(p: Patches, slices: int, scatter: bool) -> Callable[[], object]:
    """Return one `sgemm` of `slices` slices: the drive, or the reconstruction."""
    rng = np.random.default_rng(1)
    rows, inner, columns = slices * p.positions, p.length, p.features
    if scatter:
        inner, columns = columns, inner
    a, b = (rng.standard_normal(shape, np.float32) for shape in ((rows, inner), (inner, columns)))
    out = np.zeros((rows, columns), np.float32)
    return lambda: np.dot(a, b, out=out)


def main() -> None:
    graph = build(load(Path(sys.argv[1]), sys.argv[2:]).network)
    program, reason = find_program(graph)
    assert program is not None, reason
    tables, engine = Tables(graph, program, ()), Engine(schedule(graph), Serial(), 1)
    engine.start()
    steppers = [ProgramStepper(tables, engine.state.lane(slice(i, i + 1))) for i in range(len(engine.lanes))]
    for one in steppers:
        one.load_weights()
        one.run(0, WARM, True)
    links = [e.wiring.link for edges in graph.edges.values() for e in edges if e.wiring.weights]
    dense: list[tuple[Callable[[], object], int]] = []
    for link in links:
        assert link is not None
        trials = {n: products(link.patches, n, link.scatter) for n in (1, 16)}
        best = min(trials, key=lambda n: min(used(trials[n]) for _ in range(5)) / n)
        dense.append((trials[best], best))

    def floor() -> float:
        return sum(used(lambda: [job() for _ in range(32 // n)]) / 32 for job, n in dense)  # noqa: B023

    mine, theirs = [], []
    with threadpool_limits(1):
        for turn in range(TURNS):
            one = steppers[turn % len(steppers)]
            mine.append(used(lambda: one.run(WARM, WARM + STEPS, False)) / STEPS)  # noqa: B023
            theirs.append(floor())
    ratios = np.array(mine) / np.array(theirs)
    for name, values, unit in (("program", mine, 1e6), ("dense products", theirs, 1e6), ("ratio", ratios, 1)):
        low, middle, high = np.percentile(np.array(values) * unit, [25, 50, 75])
        print(f"{name:15} {middle:9.3g}  ({low:.3g} .. {high:.3g}){' us' if unit > 1 else ''}")
    rows, numbers, one = steppers[0].rows, steppers[0].numbers, steppers[0]
    saved = {key: array.copy() for key, array in engine.state.arrays.items()}
    for number, row in enumerate(rows):
        one.rows, one.numbers = rows[number : number + 1], numbers[number : number + 1]
        times = []
        for _ in range(5):
            for key, array in saved.items():
                array_now = engine.state.arrays[key]
                array_now[...] = array
            times.append(used(lambda: one.run(WARM, WARM + STEPS, False)) / STEPS)
        if row[0] != 12:
            print(f"{min(times) * 1e6:9.1f} us  {program.operations[number]}")


if __name__ == "__main__":
    main()
