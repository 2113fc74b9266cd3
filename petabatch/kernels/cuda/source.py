"""From a geometry to CUDA source: constants in front of a `.cu` text, and how the work is cut into blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from petabatch.geometry import Patches
from petabatch.kernels.cpu_units import Cell

Constant = bool | int | float

_FOLDER = Path(__file__).parent
_WARPS = (16, 8)
"""Most warps of a display block. Half as many have twice the registers each."""
_POTENTIALS = 64
"""Potentials that a thread of 16 warps keeps in its 128 registers, beside `_SUMS` sums and all else."""
_SUMS = 16
_LARGEST_PATCH = 32 * 32
_SUB_TILE_BYTES = 96 * 1024
"""Shared memory that lets two blocks of the step kernels share a multiprocessor."""
CHUNK = 32
"""Rows of weights that a block of `update` keeps in shared memory."""


@dataclass(frozen=True)
class Display:
    """How the display kernel cuts up a slice."""

    constants: Mapping[str, Constant]
    order: np.ndarray
    """int32 `[phases, warps]`: the position each warp works on in each phase, -1 for none."""
    threads: int
    shared: int
    """Bytes of shared memory."""


@dataclass(frozen=True)
class Step:
    """How the kernels of a step cut up a slice."""

    constants: Mapping[str, Constant]
    residual: int
    """Blocks for each slice; of `update` by positions and by features, of `reconstruct` by tiles."""
    update: tuple[int, int]
    reconstruct: int
    update_shared: int
    reconstruct_shared: int
    padded: int
    """Numbers in the padded error image of a slice."""


def numbers(cell: Cell, factor: float) -> dict[str, Constant]:
    """Return the numbers of the units and of error = factor * image - recon, as the kernels name them."""
    bounded = math.isfinite(cell.maximum)
    return {
        "RULE": cell.rule, "OWN": float(cell.own), "INERTIA": float(cell.inertia),
        "THRESHOLD": float(cell.threshold), "TOP": float(cell.top), "SHIFT": float(cell.shift),
        "SLOPE": float(cell.slope), "MINIMUM": float(cell.minimum),
        "MAXIMUM": float(cell.maximum) if bounded else 0.0, "CUT": bounded, "LINE": cell.line,
        "SIGNED": cell.signed, "FACTOR": factor,
    }  # fmt: skip


def geometry(p: Patches) -> dict[str, Constant]:
    """Return the constants that say where patches lie; the coarse layer has no margin, weights are shared."""
    channels, row = p.channels, p.x.size * p.channels
    numbers = (row, p.x.stride * channels, p.x.offset * channels)
    vec = next(v for v in (4, 2, 1) if all(n % v == 0 for n in numbers))
    return {
        "FEATURES": p.features, "CHANNELS": channels,
        "UNITS_Y": p.y.coarse, "UNITS_X": p.x.coarse, "FINE_Y": p.y.fine, "FINE_X": p.x.fine,
        "PATCH_Y": p.y.size, "PATCH_X": p.x.size, "STRIDE_Y": p.y.stride, "STRIDE_X": p.x.stride,
        "ORIGIN_Y": p.y.offset, "ORIGIN_X": p.x.offset, "BEFORE_Y": p.y.before, "BEFORE_X": p.x.before,
        "PADDED_Y": p.y.padded, "VEC": vec, "PITCH": _up(p.x.padded * channels, vec),
    }  # fmt: skip


def display(p: Patches, shared_limit: int) -> Display | None:
    """Return how the display kernel runs a slice, or None where it does not fit on a multiprocessor."""
    lanes = -(-p.features // 32)
    if p.length > _LARGEST_PATCH or lanes > _SUMS:
        return None
    fixed = geometry(p)
    pitch = p.features | 1  # odd: neither features nor weights of a patch meet in a bank of shared memory
    colour = -(-p.y.coarse // -(-p.y.size // p.y.stride)) * -(-p.x.coarse // -(-p.x.size // p.x.stride))
    for most in _WARPS:
        warps = min(most, colour)
        phases = _phases(p, warps)
        group = max(1, min(len(phases), _SUMS * 16 // most // lanes))
        group = -(-len(phases) // -(-len(phases) // group))
        order = np.full((_up(len(phases), group), warps), -1, np.int32)
        for number, phase in enumerate(phases):
            order[number, : len(phase)] = phase
        padded = int(fixed["PADDED_Y"]) * int(fixed["PITCH"])
        shared = 32 * warps + 4 * (2 * padded + p.length * pitch + order.size)
        if len(order) * lanes <= _POTENTIALS * 16 // most and shared <= shared_limit:
            own = {
                "WARPS": warps, "PHASES": len(order), "GROUP": group, "FEATURES_PER_LANE": lanes,
                "WEIGHT_PITCH": pitch,
            }  # fmt: skip
            return Display({**fixed, **own}, order, 32 * warps, shared)
    return None


def step(p: Patches, shared_limit: int) -> Step | None:
    """Return how the kernels of a step run, or None where a patch is larger than shared memory."""
    fixed = geometry(p)
    lanes = min(4, -(-p.features // 32))
    tile = (min(8, p.y.coarse), min(8, p.x.coarse))
    while (bytes_ := _update_bytes(p, tile, lanes, int(fixed["VEC"]))) > _SUB_TILE_BYTES and max(tile) > 1:
        tile = (-(-tile[0] // 2), tile[1]) if tile[0] >= tile[1] else (tile[0], -(-tile[1] // 2))
    recon = (min(16 * p.y.stride, p.y.fine), min(16 * p.x.stride, p.x.fine))
    while 4 * math.prod(recon) * p.channels > _SUB_TILE_BYTES and max(recon) > 1:
        recon = (-(-recon[0] // 2), recon[1]) if recon[0] >= recon[1] else (recon[0], -(-recon[1] // 2))
    recon_bytes = 4 * math.prod(recon) * p.channels
    if max(bytes_, recon_bytes) > shared_limit:
        return None
    own: dict[str, Constant] = {
        "UPDATE_Y": tile[0], "UPDATE_X": tile[1], "PER_LANE": lanes, "CHUNK": CHUNK,
        "RECON_Y": recon[0], "RECON_X": recon[1],
    }  # fmt: skip
    return Step(
        {**fixed, **own},
        residual=-(-p.y.fine * p.x.fine * p.channels // 256),
        update=(-(-p.y.coarse // tile[0]) * -(-p.x.coarse // tile[1]), -(-p.features // (32 * lanes))),
        reconstruct=-(-p.y.fine // recon[0]) * -(-p.x.fine // recon[1]),
        update_shared=bytes_,
        reconstruct_shared=recon_bytes,
        padded=int(fixed["PADDED_Y"]) * int(fixed["PITCH"]),
    )


def compose(name: str, constants: Mapping[str, Constant]) -> str:
    """Return the whole source of `<name>.cu` for these constants."""
    common = (_FOLDER / "common.cuh").read_text(encoding="utf-8")
    text = (_FOLDER / f"{name}.cu").read_text(encoding="utf-8")
    head = "".join(f"constexpr {_type(v)} {key} = {_literal(v)};\n" for key, v in constants.items())
    return head + text.replace('#include "common.cuh"\n', common)


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


def _update_bytes(p: Patches, tile: tuple[int, int], lanes: int, vec: int) -> int:
    rows = (tile[0] - 1) * p.y.stride + p.y.size
    pitch = _up(((tile[1] - 1) * p.x.stride + p.x.size) * p.channels, vec)
    return 4 * (rows * pitch + CHUNK * 32 * lanes)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _type(value: Constant) -> str:
    return {bool: "bool", int: "int", float: "float"}[type(value)]


def _literal(value: Constant) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else f"{float(np.float32(value)).hex()}f"
