"""Every access of the CUDA kernels: within arrays, and apart from those of other threads."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch.geometry import Patches
from petabatch.kernels import cuda
from petabatch.kernels.cuda.device import Limits
from petabatch.kernels.rules import ACCELERATED, Cell, Units
from petabatch.kernels.transfer import Curve
from support.cuda_problem import Plain, Problem, cell, emulated
from support.gpu_emulation import Race
from support.loops import plain

pytestmark = emulated
BARRIER = "__syncthreads();"
FOLDER = Path(cuda.__file__).parent


class Checked(Plain):
    """An emulated GPU that checks each access; `edit` changes the sources."""

    checked = True
    limits = Limits(16, 228 * 1024, 227 * 1024)

    def __init__(self, edit: Callable[[str], str] = str) -> None:
        super().__init__()
        self._edit = edit

    def compile(self, code: str) -> Any:
        return super().compile(self._edit(code))


@dataclass
class Fista(Problem):
    """The step of FISTA, whose control is float64."""

    def cell(self) -> Cell:
        return cell(ACCELERATED, 0, 0, self.curve)


def display(gpu: Plain) -> list[np.ndarray]:
    found, summed = case(gpu).run("display", [3]), case(gpu)
    kernels = summed.kernels("display")
    summed.advance(kernels, summed.state, 2, sums := kernels.sums(2))
    return [*found, sums]


def step(gpu: Plain) -> list[np.ndarray]:
    return [*case(gpu, TALL).run("step", [2]), *case(gpu, BROAD).run("step", [2])]


def gradient(gpu: Plain) -> list[np.ndarray]:
    given = case(gpu)
    sizes = (2, given.p.features, given.p.length), (2, given.p.features, given.p.length // given.p.channels)
    product, counts = (given.guarded(np.zeros(size)) for size in sizes)
    given.gradient()(given.state[3], given.image, product, counts)
    return [product, counts]


def accelerated(gpu: Plain) -> list[np.ndarray]:
    given = Fista(GEOMETRY, CURVE, gpu=gpu)
    recon, error, V, A = given.state
    rates = np.full(2, 0.1), np.ones(2)
    given.kernels("step").run(given.image, recon, error, Units(A, V.copy(), V.copy()), rates, 2)
    return [A, error, recon, *rates]


KERNELS = {each.__name__: each for each in (display, step, gradient, accelerated)}
GEOMETRY = plain(7, 5, 37, 4, 2, 3)
TALL, BROAD = plain(12, 5, 37, 4, 2, 3), plain(9, 11, 37, 4, 2, 2)
"""Numbers of positions and pixels that blocks do not share evenly."""
CURVE = Curve.of("soft", 0.4)
BOUND = re.compile(r" (<|>=) (?=[A-Z][\w *]*(?!.*\+\+\)))")
"""A bound of an index, apart from those of loops over registers."""
HARMLESS = {
    "display": ["position >= 0 && lane + 32 * j < FEATURES"],  # a lane beyond the last feature repeats it
    "gradient": [
        "base < POSITIONS",  # positions of no units
        "k < LENGTH && y >= 0",  # a sum that is not written
    ],
}
"""Bounds that save work: one further changes nothing."""


def case(gpu: Plain, sizes: Patches = GEOMETRY, **keys: Any) -> Problem:
    return Problem(sizes, CURVE, gpu=gpu, **keys)


def source(kernel: str) -> str:
    return (FOLDER / f"{kernel}.cu").read_text("utf-8")


def body(kernel: str) -> str:
    """Return the source of a kernel as it stands in a composed one."""
    return source(kernel).replace('#include "common.cuh"\n', "").split("constexpr", 1)[1]


def of(kernel: str, edited: Callable[[str], str]) -> Callable[[str], str]:
    """Return what edits the source of this kernel in a composed one, and leaves others as they are."""
    text = body(kernel)
    return lambda code: code.replace(text, edited(text)) if text in code else code


def without_barrier(number: int) -> Callable[[str], str]:
    def edited(text: str) -> str:
        parts = text.split(BARRIER)
        return BARRIER.join(
            [BARRIER.join(parts[: number + 1]) + ";" + parts[number + 1], *parts[number + 2 :]]
        )

    return edited


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_thread_meets_another_and_all_accesses_are_within_arrays(kernel: str) -> None:
    KERNELS[kernel](Checked())


@pytest.mark.parametrize(
    ("kernel", "number"),
    [
        pytest.param(kernel, number, marks=pytest.mark.long if number else ())
        for kernel in KERNELS
        for number in range(source(kernel).count(BARRIER))
    ],
)
def test_a_barrier_that_is_left_out_is_found(kernel: str, number: int) -> None:
    with pytest.raises(Race):
        KERNELS[kernel](Checked(of(kernel, without_barrier(number))))


def one_too_far(bound: re.Match[str]) -> Callable[[str], str]:
    changed = {"<": "<=", ">=": ">"}[bound[1]]
    return lambda text: text[: bound.start(1)] + changed + text[bound.end(1) :]


def bounds(kernel: str) -> list[re.Match[str]]:
    """Return the bounds of a kernel that are not harmless."""
    text = body(kernel)
    known = [
        (at.start(), at.end())
        for each in HARMLESS.get(kernel, ())
        for at in re.finditer(re.escape(each), text)
    ]
    return [one for one in BOUND.finditer(text) if not any(a <= one.start() < b for a, b in known)]


@pytest.fixture(scope="module")
def right() -> Callable[[str], list[np.ndarray]]:
    return cache(lambda kernel: KERNELS[kernel](Checked()))


@pytest.mark.parametrize(
    ("kernel", "number"),
    [
        pytest.param(kernel, number, marks=pytest.mark.long if number else ())
        for kernel in KERNELS
        for number, _ in enumerate(bounds(kernel))
    ],
)
def test_an_index_that_is_one_too_far_is_found(
    kernel: str, number: int, right: Callable[[str], list[np.ndarray]]
) -> None:
    try:
        found = KERNELS[kernel](Checked(of(kernel, one_too_far(bounds(kernel)[number]))))
    except Race:
        return
    assert any(mine.tobytes() != theirs.tobytes() for mine, theirs in zip(found, right(kernel), strict=True))
