"""Codes that are lazily evaluated, and what is known of their drives."""

from __future__ import annotations

from petabatch.engine.steppers.program.tables.rules import constants
from petabatch.engine.steppers.program.tables.writer import Writer
from petabatch.kernels.cpu.layout import DRIVE_BLOCK
from petabatch.kernels.cpu.program.lazy.layout import KEPT_NUMBERS, rooms
from petabatch.kernels.cpu.sizes import WORD, tiling
from petabatch.kernels.operations import LazyDrive, UpdateLazily
from petabatch.kernels.operations.weights import Weights
from petabatch.network.operations import Drive, LazyUpdate
from petabatch.network.stages import row_tiles


def lazy_update(to: Writer, one: LazyUpdate) -> None:
    """Write the row of a code, and the rows of its drives."""
    ny, nx, nf = to.graph.network.layers[one.layer].shape
    units = ny * nx * nf
    tiles, height = _tiles(one)
    products, kept, tallies, active = (
        f"own/{one.layer} {name}" for name in ("products", "kept", "tallies", "active")
    )
    to.own |= {
        products: (2 * units, "f4"), kept: (KEPT_NUMBERS, "f8"),
        tallies: (2 * tiles, "f8"), active: (ny * nx * -(-nf // WORD), "u8"),
    }  # fmt: skip
    to.active_bits[one.out] = active
    numbers, lists, spare = (f"scratch/{one.layer} {name}" for name in ("numbers", "lists", "projected"))
    to.scratch |= {spare: 2 * (units + DRIVE_BLOCK * nf)}
    to.scratch[numbers], to.lists[lists] = rooms(nf)
    to.private |= {numbers, lists}
    to.lazy_rows.append(len(to.rows))
    compiled = UpdateLazily(
        one.out,
        one.sources,
        [_drive(to, drive) for drive in one.drives],
        history=one.history,
        decay=one.decay,
        potential=f"layers/{one.layer}/V",
        scale=f"layers/{one.layer}/time_scale" if one.rule.scale is not None else "",
        awake=one.awake,
        bits=active,
        products=products,
        kept=kept,
        tallies=tallies,
        floats=numbers,
        lists=lists,
        spare=spare,
        features=nf,
        display=one.display,
        most=int(one.most * units),
        height=height * nx,
        parts=tiles + 2,
        rule=constants(one.rule, to.graph.network.run.dt),
        when=one.when,
    )
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
    snapshots, lengths = f"own/{name} snapshots", f"own/{name} lengths"
    to.own |= {snapshots: (2 * size, "f4"), lengths: (2 * p.positions, "f4")}
    bounds, squares = f"scratch/{name} bounds", f"scratch/{name} squares"
    to.scratch |= {bounds: p.positions, squares: size + p.x.padded * p.channels}
    return LazyDrive(
        [drive.source],
        filtered=drive.key,
        snapshots=snapshots,
        lengths=lengths,
        geometry=p,
        offsets=f"scratch/offsets {to.geometry(p)}",
        rows=rows,
        norms=norms,
        panels=panels,
        bounds=bounds,
        squares=squares,
        own=own,
    )
