"""Every access of the CUDA kernels: within arrays, and apart from those of other threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch.kernels import cuda
from petabatch.kernels.rules import ACCELERATED, Cell, Units, cell
from petabatch.layers.transfer import Transfer
from support.cuda_problem import Plain, Problem, emulated
from support.gpu_emulation import Race
from support.loops import plain

pytestmark = emulated
BARRIER = "__syncthreads();"
FOLDER = Path(cuda.__file__).parent


class Checked(Plain):
    """An emulated GPU that checks each access; `edit` changes the sources."""

    checked = True

    def __init__(self, edit: Callable[[str], str] = str) -> None:
        super().__init__()
        self._edit = edit

    def compile(self, code: str) -> Any:
        return super().compile(self._edit(code))


@dataclass
class Fista(Problem):
    """The step of FISTA, whose control is float64."""

    def cell(self) -> Cell:
        t = self.curve
        return cell(ACCELERATED, 0, 0, t.threshold, t.shift, signed=t.signed)


def display(gpu: Plain) -> None:
    case(gpu).run("display", [3])
    summed = case(gpu)
    kernels = summed.kernels("display")
    summed.advance(kernels, summed.state, 2, kernels.sums(2))


def step(gpu: Plain) -> None:
    case(gpu).run("step", [3])


def tensor(gpu: Plain) -> None:
    case(gpu, tf32=True).run("step", [2])


def gradient(gpu: Plain) -> None:
    given = case(gpu)
    sizes = (2, given.p.features, given.p.length), (2, given.p.features, given.p.length // given.p.channels)
    product, counts = (given.guarded(np.zeros(size)) for size in sizes)
    given.gradient()(given.state[3], given.image, product, counts)


def accelerated(gpu: Plain) -> None:
    given = Fista(GEOMETRY, CURVE, gpu=gpu)
    recon, error, V, A = given.state
    rates = np.full(2, 0.1), np.ones(2)
    given.kernels("step").run(given.image, recon, error, Units(A, V.copy(), V.copy()), rates, 2)


KERNELS = {each.__name__: each for each in (display, step, tensor, gradient, accelerated)}
GEOMETRY = plain(7, 5, 37, 4, 2, 3)
CURVE = Transfer(0.4, 0.4)
OFF_BY_ONE = {
    "display": ("i < PADDED; i += THREADS", "i < PADDED + 1; i += THREADS"),
    "step": ("if (i >= IMAGE) return", "if (i > IMAGE) return"),
    "tensor": ("k < LENGTH && f < FEATURES ?", "k <= LENGTH && f < FEATURES ?"),
    "gradient": ("row < POSITIONS && f < FEATURES", "row <= POSITIONS && f < FEATURES"),
    "accelerated": ("i < UNITS; i += BLOCKS * THREADS", "i <= UNITS; i += BLOCKS * THREADS"),
}
"""An index of each kernel, and what is one too far."""


def case(gpu: Plain, **keys: Any) -> Problem:
    return Problem(GEOMETRY, CURVE, gpu=gpu, **keys)


def source(kernel: str) -> str:
    return (FOLDER / f"{kernel}.cu").read_text("utf-8")


def of(kernel: str, edited: Callable[[str], str]) -> Callable[[str], str]:
    """Return what edits the source of this kernel in a composed one, and leaves others as they are."""
    body = source(kernel).replace('#include "common.cuh"\n', "").split("constexpr", 1)[1]
    return lambda code: code.replace(body, edited(body)) if body in code else code


def without_barrier(number: int) -> Callable[[str], str]:
    def edited(body: str) -> str:
        parts = body.split(BARRIER)
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


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_index_that_is_one_too_far_is_found(kernel: str) -> None:
    right, wrong = OFF_BY_ONE[kernel]
    assert right in source(kernel)
    with pytest.raises(Race):
        KERNELS[kernel](Checked(of(kernel, lambda body: body.replace(right, wrong))))
