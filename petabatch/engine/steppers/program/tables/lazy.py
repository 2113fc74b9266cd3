"""Rows of codes that are lazily evaluated."""

from __future__ import annotations

from petabatch.engine.steppers.program.tables.rules import constants
from petabatch.engine.steppers.program.tables.weights import Weights
from petabatch.engine.steppers.program.tables.writer import Writer
from petabatch.kernels.cpu.layout import DRIVE_BLOCK
from petabatch.kernels.cpu.program import table as t
from petabatch.kernels.cpu.program.lazy.layout import KEPT_NUMBERS, rooms
from petabatch.kernels.cpu.sizes import WORD, tiling
from petabatch.network.operations import (
    Drive,
    LazyUpdate,
)
from petabatch.network.stages import row_tiles


def lazy_update(to: Writer, one: LazyUpdate) -> None:
    """Write the row of a code, and the rows of its drives."""
    first, last = to.summed(one.sources)
    ny, nx, nf = to.graph.network.layers[one.layer].shape
    units = ny * nx * nf
    tiles, height = _tiles(one)
    keys = {name: f"own/{one.layer} {name}" for name in ("products", "kept", "tallies", "active")}
    to.own |= {
        keys["products"]: (2 * units, "f4"), keys["kept"]: (KEPT_NUMBERS, "f8"),
        keys["tallies"]: (2 * tiles, "f8"), keys["active"]: (ny * nx * -(-nf // WORD), "u8"),
    }  # fmt: skip
    to.active_bits[one.out] = keys["active"]
    numbers, lists, spare = (f"scratch/{one.layer} {name}" for name in ("numbers", "lists", "projected"))
    to.scratch |= {spare: 2 * (units + DRIVE_BLOCK * nf)}
    to.scratch[numbers], to.lists[lists] = rooms(nf)
    to.private |= {numbers, lists}
    row = {
        t.A: first, t.B: last, t.C: len(to.drives),
        t.HISTORY: to.array(one.history), t.POTENTIAL: to.array(f"layers/{one.layer}/V"),
        t.PRODUCTS: to.array(keys["products"]), t.KEPT: to.array(keys["kept"]),
        t.FLOATS: to.array(numbers), t.LISTS: to.array(lists), t.SPARE: to.array(spare),
        t.FEATURES: nf, t.DISPLAY: one.display,
        t.AWAKE: to.array(one.awake), t.MOST: int(one.most * units), t.DECAY: to.array(one.decay),
        t.BITS: to.array(keys["active"]), t.TALLIES: to.array(keys["tallies"]),
        t.HEIGHT: height * nx, t.PARTS: tiles + 2,
    }  # fmt: skip
    to.drives += [_drive(to, drive) for drive in one.drives]
    row[t.D] = len(to.drives)
    if one.rule.scale is not None:
        row[t.G] = to.array(f"layers/{one.layer}/time_scale")
    to.lazy_rows.append(len(to.rows))
    to.row(t.Op.LAZY, one, row, constants(one.rule, to.graph.network.run.dt))


def _tiles(one: LazyUpdate) -> tuple[int, int]:
    """Return the tiles of a code, and the rows of each: 0 where there is one."""
    tiles = row_tiles(one)
    return tiles, tiling(one.drives[0].patches)[0] if tiles > 1 else 0


def _drive(to: Writer, drive: Drive) -> list[int]:
    p, name = drive.patches, drive.key.rpartition("/")[2]
    size, geometry = p.y.padded * p.x.padded * p.channels, to.geometry(drive.patches)
    weights = Weights(drive.weights, p)
    names = {t.ROWS: weights.rows[0], t.NORMS: weights.rows[1], t.PANELS: weights.names[0]}
    if p.shared:
        to.weights[weights.names] = weights
        to.read_by_rows.add(weights.names)
    else:
        names = {t.OWN: drive.weights, t.NORMS: f"own/{name} norms"}
        to.own[names[t.NORMS]] = (p.positions * p.features + WORD, "f4")
        to.norms_of[names[t.NORMS]] = weights
    snapshots, lengths = f"own/{name} snapshots", f"own/{name} lengths"
    to.own |= {snapshots: (2 * size, "f4"), lengths: (2 * p.positions, "f4")}
    bounds, squares = f"scratch/{name} bounds", f"scratch/{name} squares"
    to.scratch |= {bounds: p.positions, squares: size + p.x.padded * p.channels}
    source, _ = to.summed([drive.source])
    columns = {
        t.SOURCE: source, t.FILTERED: to.array(drive.key), t.SNAPSHOTS: to.array(snapshots),
        t.LENGTHS: to.array(lengths), t.GEOMETRY: geometry,
        t.OFFSETS: to.array(f"scratch/offsets {geometry}"),
        t.BOUNDS: to.array(bounds), t.SQUARES: to.array(squares),
    }  # fmt: skip
    columns |= {column: to.array(key) for column, key in names.items()}
    return [columns.get(column, 0) for column in range(t.DRIVES)]
