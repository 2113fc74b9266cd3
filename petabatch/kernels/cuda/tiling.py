"""The tiles into which the kernels of a step cut slices, from the sizes of network and multiprocessor.

The rule, for `update` and `reconstruct` each by itself: begin with a tile that reads each weight for many
units; halve its longer side until two blocks fit on a multiprocessor, so that one computes while the other
loads; go on while there are fewer than two blocks for each multiprocessor and the tile is more than the
smallest. No bit depends on tiles: the order of each sum does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from petabatch.geometry import Axis, Patches
from petabatch.kernels.cuda.device import Limits
from petabatch.kernels.cuda.source import Constant, geometry, round_up

RESIDENT = 2
"""Blocks that share a multiprocessor, and blocks for each of them that a launch should have."""
CHUNK = 32
"""Rows of weights that a block of `update` has in shared memory at once; on tensor cores twice."""
_UPDATE, _UPDATE_TENSOR = (8, 8), (8, 8)
"""Largest tiles of positions: what 8 warps of 128 registers can add up, for 128 features."""
_SMALLEST, _SMALLEST_TENSOR = 16, 32
"""Positions that leave each warp two, or one product of tensor cores."""
_RECONSTRUCT = 16
"""Strides along a side of the largest tile of `reconstruct`."""
Tile = tuple[int, int]


@dataclass(frozen=True)
class Step:
    """How the kernels of a step cut up slices."""

    constants: Mapping[str, Constant]
    residual: int
    """Blocks for each slice; of `update` by positions and by features, of `reconstruct` by tiles."""
    update: tuple[int, int]
    reconstruct: int
    update_shared: int
    reconstruct_shared: int
    """Bytes of shared memory of a block."""
    padded: int
    """Numbers in the padded error image of a slice."""


def step(p: Patches, limits: Limits, slices: int, tensor: bool = False) -> Step | None:
    """Return how the kernels of a step run, or None where a patch is larger than shared memory.

    `slices` run together; with `tensor`, tensor cores compute the drive.
    """
    fixed = geometry(p)
    vec, lanes = int(fixed["VEC"]), min(4, -(-p.features // 32))
    features = -(-p.features // (32 * lanes))
    coarse, fine = (p.y.coarse, p.x.coarse), (p.y.fine, p.x.fine)

    def update_bytes(tile: Tile) -> int:
        rows, columns = _reach(p.y, tile[0]), round_up(_reach(p.x, tile[1]) * p.channels, vec)
        weights = 2 * CHUNK * (32 * lanes + 8) if tensor else CHUNK * 32 * lanes
        return 4 * (rows * columns + weights)

    def recon_bytes(tile: Tile) -> int:
        return 4 * tile[0] * tile[1] * p.channels

    largest, smallest = (_UPDATE_TENSOR, _SMALLEST_TENSOR) if tensor else (_UPDATE, _SMALLEST)
    tile = _tile(_clip(largest, coarse), coarse, smallest, update_bytes, limits, slices * features)
    strides = (_RECONSTRUCT * p.y.stride, _RECONSTRUCT * p.x.stride)
    recon = _tile(_clip(strides, fine), fine, p.y.size * p.x.size, recon_bytes, limits, slices)
    if max(update_bytes(tile), recon_bytes(recon)) > limits.shared_block:
        return None
    tiles: dict[str, Constant] = {
        "UPDATE_Y": tile[0], "UPDATE_X": tile[1], "PER_LANE": lanes, "CHUNK": CHUNK,
        "RECON_Y": recon[0], "RECON_X": recon[1], "RESIDENT": RESIDENT,
    }  # fmt: skip
    return Step(
        {**fixed, **tiles},
        residual=-(-p.y.fine * p.x.fine * p.channels // 256),
        update=(_number(coarse, tile), features),
        reconstruct=_number(fine, recon),
        update_shared=update_bytes(tile),
        reconstruct_shared=recon_bytes(recon),
        padded=int(fixed["PADDED_Y"]) * int(fixed["PITCH"]),
    )


def _tile(
    tile: Tile, whole: Tile, smallest: int, size: Callable[[Tile], int], limits: Limits, times: int
) -> Tile:
    """Return a tile of `whole` by the rule above; `times` as many blocks as tiles are launched."""
    share = limits.shared // RESIDENT - limits.reserved
    while max(tile) > 1:
        crowded = size(tile) > min(share, limits.shared_block)
        idle = times * _number(whole, tile) < RESIDENT * limits.multiprocessors
        if not crowded and not (idle and tile[0] * tile[1] >= 2 * smallest):
            break
        tile = (-(-tile[0] // 2), tile[1]) if tile[0] >= tile[1] else (tile[0], -(-tile[1] // 2))
    return tile


def _number(whole: Tile, tile: Tile) -> int:
    return -(-whole[0] // tile[0]) * -(-whole[1] // tile[1])


def _clip(tile: Tile, whole: Tile) -> Tile:
    return min(tile[0], whole[0]), min(tile[1], whole[1])


def _reach(axis: Axis, positions: int) -> int:
    """Return how many pixels the patches of neighbouring positions cover."""
    return (positions - 1) * axis.stride + axis.size
