"""CUDA sources for one geometry: the constants in front of a `.cu` text, and the blocks of threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from petabatch.geometry import Patches
from petabatch.kernels.cuda.cell import CELL, Constant
from petabatch.kernels.cuda.device import Limits
from petabatch.kernels.cuda.fold import FOLD
from petabatch.kernels.rules import GRADIENT, HEAVY_BALL, LEAKY, MOMENTUM

CudaKernel = Literal["display", "step"]
DISPLAY_RULES = {LEAKY, HEAVY_BALL, MOMENTUM, GRADIENT}
"""The rules that the display kernel has."""
ROOMY = Limits(1, 2**40, 2**40)
"""Unlimited shared memory, for decisions made before the GPU is known."""

THREADS = 256
"""Of a block of the kernels of a step."""
_FOLDER = Path(__file__).parent
_WARPS = (16, 8)
"""Most warps of a display block, the first for which the registers are enough."""
_LARGEST_PATCH = 32 * 32


@dataclass(frozen=True)
class Display:
    """How the display kernel cuts up a slice."""

    constants: Mapping[str, Constant]
    order: np.ndarray
    """int32 `[phases, warps]`: the position each warp works on in each phase, -1 for none."""
    threads: int
    shared: int
    """Bytes of shared memory."""


def geometry(p: Patches) -> dict[str, Constant]:
    """Return the constants that say where patches lie; the coarse layer has no margin, weights are shared."""
    channels, row = p.channels, p.x.size * p.channels
    starts = (row, p.x.stride * channels, p.x.offset * channels)
    vec = next(v for v in (4, 2, 1) if all(n % v == 0 for n in starts))
    return {
        "FEATURES": p.features, "CHANNELS": channels,
        "UNITS_Y": p.y.coarse, "UNITS_X": p.x.coarse, "FINE_Y": p.y.fine, "FINE_X": p.x.fine,
        "PATCH_Y": p.y.size, "PATCH_X": p.x.size, "STRIDE_Y": p.y.stride, "STRIDE_X": p.x.stride,
        "ORIGIN_Y": p.y.offset, "ORIGIN_X": p.x.offset, "BEFORE_Y": p.y.before, "BEFORE_X": p.x.before,
        "PADDED_Y": p.y.padded, "VEC": vec, "PITCH": round_up(p.x.padded * channels, vec),
    }  # fmt: skip


def display(p: Patches, limits: Limits) -> Display | None:
    """Return how the display kernel runs a slice, or None where it does not fit on a multiprocessor.

    Of the registers of a thread, half are for potentials and an eighth for sums; the rest is for all else. As
    many warps as these allow hide what each of them waits for; and as many blocks share a multiprocessor as
    its registers, threads and shared memory allow.
    """
    lanes = -(-p.features // 32)
    if p.length > _LARGEST_PATCH:
        return None
    fixed = geometry(p)
    pitch = p.features | 1  # odd: neither features nor weights of a patch meet in a bank of shared memory
    colour = -(-p.y.coarse // -(-p.y.size // p.y.stride)) * -(-p.x.coarse // -(-p.x.size // p.x.stride))
    for most in _WARPS:
        registers = min(256, limits.registers // (32 * most))
        warps = min(most, colour)
        phases = _phases(p, warps)
        group = max(1, min(len(phases), registers // 8 // lanes))
        group = -(-len(phases) // -(-len(phases) // group))
        order = np.full((round_up(len(phases), group), warps), -1, np.int32)
        for number, phase in enumerate(phases):
            order[number, : len(phase)] = phase
        padded = int(fixed["PADDED_Y"]) * int(fixed["PITCH"])
        shared = 32 * warps + 4 * (2 * padded + p.length * pitch + order.size)
        potentials, sums = len(order) * lanes, group * lanes
        if potentials <= registers // 2 and sums <= registers // 8 and shared <= limits.shared_block:
            needs = round_up(potentials + sums + registers * 3 // 8, 8)
            resident = min(
                limits.shared // (shared + limits.reserved),
                limits.threads // (32 * warps),
                limits.registers // (32 * warps * needs),
            )
            blocks = {
                "WARPS": warps, "PHASES": len(order), "GROUP": group, "FEATURES_PER_LANE": lanes,
                "WEIGHT_PITCH": pitch, "RESIDENT": max(1, resident),
            }  # fmt: skip
            return Display({**fixed, **blocks}, order, 32 * warps, shared)
    return None


@dataclass(frozen=True)
class Step:
    """How the kernels of a step divide a slice."""

    constants: Mapping[str, Constant]
    pixels: int
    positions: int
    units: int
    """Blocks of a thread for each pixel, a warp for each position, a thread for each unit."""


def step(p: Patches) -> Step | None:
    """Return how the kernels of a step run, or None where a slice has more numbers than they count."""
    pixels, units = p.y.fine * p.x.fine * p.channels, p.positions * p.features
    if max(pixels, units, p.positions) >= 2**31:
        return None
    blocks = (-(-number // THREADS) for number in (pixels, 32 * p.positions, units))
    return Step(geometry(p), *blocks)


def compose(name: str, constants: Mapping[str, Constant]) -> str:
    """Return the whole source of `<name>.cu` for these constants."""
    common = (_FOLDER / "common.cuh").read_text(encoding="utf-8")
    text = (_FOLDER / f"{name}.cu").read_text(encoding="utf-8")
    head = "".join(f"constexpr {_type(v)} {key} = {_literal(v)};\n" for key, v in constants.items())
    for name_of, included in (("common", common), ("cell", CELL), ("fold", FOLD)):
        text = text.replace(f'#include "{name_of}.cuh"\n', included)
    return head + text


def _phases(p: Patches, warps: int) -> list[list[int]]:
    """Return the positions in groups of up to `warps` whose patches do not overlap."""
    down, across = -(-p.y.size // p.y.stride), -(-p.x.size // p.x.stride)
    found = []
    for dy in range(min(down, p.y.coarse)):
        for dx in range(min(across, p.x.coarse)):
            colour = [
                y * p.x.coarse + x for y in range(dy, p.y.coarse, down) for x in range(dx, p.x.coarse, across)
            ]
            found += [colour[i : i + warps] for i in range(0, len(colour), warps)]
    return found


def round_up(number: int, multiple: int) -> int:
    """Return the next multiple."""
    return -(-number // multiple) * multiple


def _type(value: Constant) -> str:
    return {bool: "bool", int: "int", float: "float", np.float64: "double"}[type(value)]


def _literal(value: Constant) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, np.float64):
        return float(value).hex()
    return str(value) if isinstance(value, int) else f"{float(np.float32(value)).hex()}f"
