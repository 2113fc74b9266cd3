"""Codes that are lazily evaluated, and what is known of their drives."""

from __future__ import annotations

from petabatch.engine.steppers.program.tables.rules import cell
from petabatch.engine.steppers.program.tables.writer import Writer
from petabatch.kernels.cpu.layout import DRIVE_BLOCK
from petabatch.kernels.cpu.program.lazy.layout import KEPT_NUMBERS, rooms
from petabatch.kernels.cpu.sizes import WORD, tiling
from petabatch.kernels.operations.updates import LazyDrive, UpdateLazily
from petabatch.kernels.operations.weights import Weights
from petabatch.network.operations import Drive, LazyUpdate
from petabatch.network.stages import row_tiles


def lazy_update(to: Writer, one: LazyUpdate) -> None:
    """Write the row of a code, and the rows of its drives."""
    ny, nx, nf = to.graph.network.layers[one.layer].shape
    units = ny * nx * nf
    tiles, height = _tiles(one)
    compiled = UpdateLazily(
        one.out, one.sources, [_drive(to, drive) for drive in one.drives], one.layer, one.history, one.decay,
        one.awake, one.rule.scale is not None, nf, one.display, most=int(one.most * units),
        height=height * nx, parts=tiles + 2, cell=cell(one.rule, to.graph.network.run.dt, to.real),
    )  # fmt: skip
    to.own |= {
        compiled.products: (2 * units, "f4"), compiled.kept: (KEPT_NUMBERS, "f8"),
        compiled.tallies: (2 * tiles, "f8"), compiled.bits: (ny * nx * -(-nf // WORD), "u8"),
    }  # fmt: skip
    to.active_bits[one.out] = compiled.bits
    to.scratch[compiled.spare] = 2 * (units + DRIVE_BLOCK * nf)
    to.scratch[compiled.floats], to.lists[compiled.lists] = rooms(nf)
    to.private |= {compiled.floats, compiled.lists}
    to.lazy_rows.append(len(to.rows))
    to.row(compiled, one)


def _tiles(one: LazyUpdate) -> tuple[int, int]:
    """Return the tiles of a code, and the rows of each: 0 where there is one."""
    tiles = row_tiles(one)
    return tiles, tiling(one.drives[0].patches)[0] if tiles > 1 else 0


def _drive(to: Writer, drive: Drive) -> LazyDrive:
    p, name = drive.patches, drive.key.rpartition("/")[2]
    size = p.y.padded * p.x.padded * p.channels
    weights, own = Weights(drive.weights, p), ""
    (rows, norms), panels = weights.rows, weights.names[0]
    if p.shared:
        to.shared(weights)
        to.read_by_rows.add(weights.names)
    else:
        rows, norms, panels, own = "", f"own/{name} norms", "", drive.weights
        to.own[norms] = (p.positions * p.features + WORD, "f4")
        to.norms_of[norms] = weights
    made = LazyDrive(
        [drive.source], drive.key, name, p, f"scratch/offsets {to.geometry(p)}", rows, panels, norms, own
    )
    to.own |= {made.snapshots: (2 * size, "f4"), made.lengths: (2 * p.positions, "f4")}
    to.scratch |= {made.bounds: p.positions, made.squares: size + p.x.padded * p.channels}
    return made
