"""The campaign: single steps and runs of random layers."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from petabatch import in_memory
from petabatch.connections import Identity
from petabatch.errors import NonFiniteError, ParamsError
from petabatch.layers import Constant, Neurons
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import STEP, StepContext
from petabatch.spec.rows import drawn
from support.gpu_emulation import COMPILER
from support.random_equations.comparing import Outcome, compare
from support.random_equations.drawing import Drawn, draw
from support.random_equations.executors import UNITS, made_of, random_inputs, stepped
from support.random_equations.expressions import Inputs, Layer

STEPS, SLICES = 10, 2


def run_of(outcome: Outcome, one: Drawn, layer: Neurons, model: Layer, kernel: str, precision: str) -> None:
    """Compare the steps of a run of a network."""
    rng, first = np.random.default_rng(one.seed), one.variables[0]
    delay = int(rng.integers(3)) if one.spike is not None else 0
    connections = {"back": Identity(pre="n", post="n", target=first, strength=0.2, delay_steps=delay)}
    connections |= {
        f"c{name}": Identity(pre="c", post="n", target=name, strength=0.5) for name in one.currents
    }
    values = {name: tuple(rng.uniform(0.2, 1.5, SLICES).tolist()) for name in one.per_slice}
    recorded = ("A", *one.variables, *(("refractory",) if layer.step.rests else ()))
    network = Network(
        run=Run(steps=STEPS, batch=SLICES, dt=one.dt, kernel=kernel, precision=precision, seed=one.seed),  # type: ignore[arg-type]
        layers={"n": layer, "c": Constant(shape=layer.shape, value=0.75)}, connections=connections,
        slices={f"layers.n.parameters.{name}": some for name, some in values.items()},
        output=Output(layers={"n": LayerOutput(every=STEP, variables=recorded)}),
    )  # fmt: skip
    try:
        result = in_memory.run(network, at=[0], threads=1)
    except NonFiniteError:
        outcome.steps[f"{kernel} {precision}: diverged"] += 1
        return
    shape, real = (SLICES, UNITS), np.dtype(precision).type
    start = {
        key.rpartition("/")[2]: np.asarray(array)[0]
        for key, array in result.states.items()
        if "layers/n/" in key
    }
    start = {
        name: array[:, -1].reshape(shape) if name == "A" else array.reshape(shape)
        for name, array in start.items()
    }
    course = {
        name: [start[name], *np.asarray(result.recorded[f"layers/n/{name}"]).reshape(STEPS, *shape)]
        for name in recorded
    }
    assert course[first][1].dtype == real
    numbers = {name: value for name, value in layer.parameters.items() if isinstance(value, float)}
    numbers |= {name: np.array(some)[:, None] for name, some in values.items()}
    arrived = {name: np.zeros(shape) for name in one.variables}
    for step in range(1, STEPS + 1):
        before = {name: one_course[step - 1] for name, one_course in course.items()}
        seen = step - 1 - delay
        arrived[first] = real(0.2) * course["A"][seen] if seen >= 0 else np.zeros(shape)
        ctx = StepContext(step, one.dt, tuple(range(SLICES)), one.seed, layer="n")
        noise = {
            n: np.stack([drawn(layer, ctx, n, s).reshape(-1) for s in range(SLICES)]) for n in layer.draws
        }
        given = Inputs(
            {name: before[name] for name in one.variables}, before["A"] * (one.spike is not None),
            before.get("refractory", np.zeros(shape)), arrived,
            {name: np.full(shape, 0.375) for name in one.currents}, numbers,
            {name: start[name] for name in one.units}, noise, (step - 1) * one.dt, one.dt,
        )  # fmt: skip
        after = {name: one_course[step] for name, one_course in course.items()}
        compare(outcome, f"run {kernel} {precision}", model, given, after, real)


def outcome_of(
    seed: int,
    number: int,
    compiled: int = 1,
    gpu: int = 5,
    seconds: float = math.inf,
    say: Callable[[str], Any] = lambda text: None,
) -> Outcome:
    """Return what becomes of some layers, as many as processor time allows.

    Every so many are compiled for the CPU and the emulated GPU.
    """
    outcome, end = Outcome(), time.process_time() + seconds
    for at in range(number):
        if time.process_time() > end:
            break
        known = len(outcome.wrong)
        on_cpu, on_gpu = (every > 0 and at % every == 0 for every in (compiled, gpu))
        outcome.wrong += [*tried(outcome, seed + at, on_cpu, on_gpu)]
        outcome.steps["layers"] += 1
        for text in outcome.wrong[known:]:
            say(text)
    return outcome


def tried(outcome: Outcome, seed: int, compiled: bool, gpu: bool) -> Iterator[str]:
    """Try a layer; yield what fails."""
    one, known = draw(seed), len(outcome.wrong)
    try:
        layer = made_of(one, one.numbers)
    except ParamsError as error:  # of constants that are drawn
        outcome.steps["refused"] += 1
        if not re.search("no finite number|exponent is too large", str(error)):
            yield f"refused: {error}\n    of seed {seed}: {one}"
        return
    method = layer.step.choice.method
    outcome.words.update(one.words + Counter([f"method {method}"]))
    if method not in one.methods:
        yield f"method {method}, not one of {one.methods}"
    model = Layer(one.equations, one.spike, one.reset, one.refractory, one.activity, method)
    rng = np.random.default_rng([seed, 1])
    executors = [("array", np.float64), ("array", np.float32)]
    executors += [("compiled", np.float32)] * compiled + [("CUDA", np.float32)] * (
        gpu and COMPILER is not None
    )
    for again in range(3):
        values = {name: float(rng.uniform(-1, 2)) for name in one.numbers} if again else one.numbers
        own = made_of(one, values)
        given = random_inputs(one, own, values, rng)
        for executor, real in executors:
            here = replace(given, state={n: v.astype(real) for n, v in given.state.items()})
            compare(
                outcome, f"{executor} {real.__name__}", model, here, stepped(own, given, executor, real), real
            )
    for kernel, precision in [("array", "float64"), ("array", "float32"), *[("auto", "float32")] * compiled]:
        run_of(outcome, one, layer, model, kernel, precision)
    if len(outcome.wrong) > known:
        yield f"    of seed {seed}: {one}"
