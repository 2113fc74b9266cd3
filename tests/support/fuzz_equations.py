"""Fuzzing of equations, for a given time.

    python tests/support/fuzz_equations.py --seconds 600

Characters, words and lines of good texts are changed, removed, repeated and exchanged, and expressions are
nested. Texts must be read or refused by WrongTexts within two seconds of the processor, and nothing of them
may be executed: audit events of execution, imports and files are errors. Of those that are read the row
function must be Python. Printed are the outcomes, and everything else; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from petabatch.equations.functions import CALLED
from petabatch.equations.read import Texts, WrongTexts, read_step
from petabatch.equations.source import row_source

SECONDS = 2.0
_GOOD = (
    Texts(
        "dv/dt = (ge + gi - (v + 49)) / 20 : unless refractory\ndge/dt = -ge / 5\ndgi/dt = -gi / 10",
        spike="v > -50", reset="v = -60", refractory=True,
    ),
    Texts(
        "dv/dt = 0.04 * v ** 2 + 5 * v + 140 - u + I\ndu/dt = a * (b * v - u)",
        currents=("I",), parameters=("a", "b"), units=("c", "d"), spike="v >= 30", reset="v = c; u += d",
    ),
    Texts(
        "a = T if u > l else 0  # a code\nT = u - l\ndu/dt = (b - u + a) / tau",
        currents=("b",), parameters=("tau", "l"), activity="a",
    ),
    Texts("dx/dt = -x / tau + sigma * sqrt(2 / tau) * xi", parameters=("tau", "sigma")),
    Texts("dx/dt = omega + K * sin(y - x) * exprel(-t)\ndy/dt = (clip(x, 0, 1) + 1) % 2", ("K",), ("omega",)),
)  # fmt: skip
_WORDS = (
    "(", ")", "**", "%", "//", "^", "=", "==", "<", ":", ";", "\n", "#", "\\", "'", '"', "0x", "1e999", "1_0",
    "9" * 50, "1j",
    "xi", "xi_1", "t", "dt", "dv/dt", "dlambda/dt", " if ", " else ", " and ", " not ",
    "lambda: ",
    "unless refractory", "__import__('os').system('true')", "open('x')", "v.__class__", "[v]", "{v}", "*v",
    "v := 3", "f'{v}'", "\x00", "\u00e9", "\u2028", "await v", "yield", "None", "True",
    "...", "pi", "real", "A",
    "math", "_p", "v__1", "**64", "-" * 70, "(" * 90, *CALLED,
)  # fmt: skip
_EXECUTES = ("exec", "import", "open", "os.", "subprocess.", "socket.", "ctypes.")


def random_texts(rng: random.Random) -> Texts:
    """Return the texts of a layer, with up to two changes."""
    texts = rng.choice(_GOOD)
    for _ in range(rng.randint(0, 2)):
        key = rng.choice(["equations"] * 4 + ["spike", "reset", "activity"])
        texts = replace(texts, **{key: _damaged(getattr(texts, key) or "v", rng)})
    methods = ("exact", "exponential_euler", "euler", "heun", "rk4", "euler_maruyama")
    method = rng.choice(methods) if rng.random() < 0.3 else "auto"
    return replace(texts, method=method, refractory=rng.random() < 0.5)


def _damaged(text: str, rng: random.Random) -> str:
    pieces = re.split(r"(\W)", text) if rng.random() < 0.8 else list(text)
    at = rng.randrange(len(pieces))
    match rng.randrange(6):
        case 0:
            pieces[at] = rng.choice(_WORDS)
        case 1:
            del pieces[at]
        case 2:
            pieces[at] *= rng.choice((2, 2, 60, 3000))
        case 3:
            other = rng.randrange(len(pieces))
            pieces[at], pieces[other] = pieces[other], pieces[at]
        case 4:
            depth = rng.choice((1, 2, 40, 300))
            pieces[at] = f"{rng.choice(tuple(CALLED))}(" * depth + pieces[at] + ")" * depth
        case _:
            pieces[at] = chr(rng.randrange(1, 0x2FFF))
    return "".join(pieces)[:30_000]


class Executed(BaseException):
    """Something was executed; no handler of errors takes it for one of its own."""


_watched: list[str] = []


def _audit(event: str, given: tuple[Any, ...]) -> None:
    if _watched and event.startswith(_EXECUTES):
        raise Executed(f"{event} {given!r:.200}")


@contextmanager
def watching() -> Iterator[None]:
    """Raise Executed where anything is executed, imported or opened."""
    _watched.append("")
    try:
        yield
    finally:
        _watched.clear()


def outcome(number: int) -> str:
    """Return what becomes of random texts: the method of those that are read, or "refused"."""
    texts = random_texts(random.Random(number))
    began = time.process_time()
    try:
        with watching():
            step = read_step(texts)
            numbers = sorted(step.numbers(dict.fromkeys(texts.parameters, 1.0), 0.1, 1.0))
        found = str(step.choice.method)
        state = (*step.system.variables, *texts.units)
        inputs = (*(f"{name}__in" for name in step.system.variables), *texts.currents)
        compile(row_source(step, numbers, state, inputs, step.system.equations.noises), "row", "exec")
    except WrongTexts:
        found = "refused"
    if (seconds := time.process_time() - began) > SECONDS:
        raise TimeoutError(f"{seconds:.1f} s")
    return found


def outcomes(numbers: Iterable[int]) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Return how often there was each outcome, and the numbers of texts with another one and what it was."""
    found, failed = Counter[str](), []
    _ready()
    for number in numbers:
        try:
            found[outcome(number)] += 1
        except (Exception, Executed):
            failed.append((number, traceback.format_exc()))
    return found, failed


def _ready() -> None:
    """Import what is imported on first use, and install the hook."""
    if not getattr(_ready, "done", False):
        for texts in _GOOD:
            read_step(texts)
        with_error = replace(_GOOD[0], equations="dv/dt = (")
        try:
            read_step(with_error)
        except WrongTexts:
            sys.addaudithook(_audit)
        _ready.done = True  # type: ignore[attr-defined]


def _until(end: float) -> Iterator[int]:
    number = 0
    while time.monotonic() < end:
        yield number
        number += 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    found, failed = outcomes(_until(time.monotonic() + parser.parse_args().seconds))
    print(f"{sum(found.values()):,} texts: " + ", ".join(f"{n:,} {kind}" for kind, n in found.most_common()))
    for number, text in failed[:10]:
        print(f"{number}: {random_texts(random.Random(number))}\n{text}")
    print(f"{len(failed)} failures")
    sys.exit(bool(failed))
