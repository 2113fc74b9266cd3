"""Drawing of a network: layers in columns by level, connections as numbered lines with a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from petabatch.plotting.figures import MUTED, pyplot, styled

_COLOURS = {
    "input": "#a9cbe8",
    "code": "#f5c88a",
    "sum": "#dcdcdc",
    "constant": "#bfdcb0",
    "other": "#e6d4ec",
}
_KINDS = {"input": "input", "linear": "sum", "constant": "constant"}
_CODES = ("lca", "ista", "fista", "heavy_ball", "momentum_lca")
_LINES = {"exc": "#30588c", "inh": "#b03030", "other": "#6b6b6b"}
_BOX = (1.55, 0.62)
"""Inches of a layer."""
_ACROSS = 8
"""Levels that are drawn from left to right; more are drawn from top to bottom."""
_LANE = 0.16
"""Inches between parallel lines."""

Tables = Mapping[str, Mapping[str, Any]]


class _Line(NamedTuple):
    """A connection: its points along the levels and across them."""

    points: list[tuple[float, float]]
    number: tuple[float, float]


@styled
def draw_network(layers: Tables, connections: Tables, title: str = "") -> Any:
    """Return a figure of the network that these tables of a params file describe.

    Layers have their type and shape; connections are numbered, and the key below names them with patch,
    weight mode and learning rule. Feedback is dashed, what is subtracted is red.
    """
    from matplotlib.patches import FancyBboxPatch

    layout = _Layout.of(layers, connections)
    key = [
        f"{number}  {describe(name, table)}" for number, (name, table) in enumerate(connections.items(), 1)
    ]
    width, height = max(layout.extent[0], 7.4), layout.extent[1]
    longest = max(map(len, key), default=1)
    columns = max(1, int(width / (0.068 * longest + 0.2)))
    rows = -(-len(key) // columns)
    below = 0.17 * rows + 0.75
    figure = pyplot().figure(figsize=(width, height + below + 0.4))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(-height - below, 0.4))
    axes.set_axis_off()
    for number, (table, line) in enumerate(zip(connections.values(), layout.lines, strict=True), 1):
        _draw_line(axes, table, line, number)
    for name, (x, y) in layout.places.items():
        table = layers[name]
        box = FancyBboxPatch(
            (x - _BOX[0] / 2, y - _BOX[1] / 2), *_BOX, boxstyle="round,pad=0,rounding_size=0.08",
            fc=_COLOURS[_kind(table)], ec="#505050", lw=0.8, zorder=3,
        )  # fmt: skip
        axes.add_patch(box)
        text = f"{table['type']}\n{' × '.join(map(str, table['shape']))}"
        shown = {"ha": "center", "parse_math": False, "zorder": 4}
        size = min(9.0, 1.5 * 72 / (0.62 * max(1, len(name))))
        axes.text(x, y + 0.17, name, fontsize=size, weight="bold", va="center", **shown)
        axes.text(x, y - 0.11, text, fontsize=7.5, va="center", color="#404040", linespacing=1.1, **shown)
    axes.text(0.15, 0.2, title or "Network", fontsize=9, va="center", parse_math=False)
    _legend(axes, -height - 0.18, layers, connections)
    for number, text in enumerate(key):
        x = 0.15 + (number // rows) * (width - 0.15) / columns
        axes.text(x, -height - 0.5 - 0.17 * (number % rows), text, fontsize=8, va="center", parse_math=False)
    return figure


def describe(name: str, table: Mapping[str, Any]) -> str:
    """Return a connection in words: its type, patch, weight mode and learning rule."""
    words = [str(table["type"])]
    if "patch" in table:
        words.append(" × ".join(map(str, table["patch"])))
    if "mode" in table:
        words.append(str(table["mode"]))
    if table.get("of"):
        words.append(f"of {table['of']}")
    if table.get("learn"):
        words.append(f"learns ({table['learn']['type']})")
    if table.get("delay_steps"):
        words.append(f"delay {table['delay_steps']}")
    return f"{name}: {', '.join(words)}"


def levels(layers: Tables, connections: Tables) -> dict[str, int]:
    """Return the level of each layer: the longest way to it without feedback."""
    found = dict.fromkeys(layers, 0)
    for _ in layers:
        for table in connections.values():
            if not table["feedback"] and table["pre"] != table["post"]:
                found[table["post"]] = max(
                    found[table["post"]], min(found[table["pre"]] + 1, len(layers) - 1)
                )
    return found


@dataclass(frozen=True)
class _Layout:
    places: dict[str, tuple[float, float]]
    """Centres of the layers, in inches from the top left corner; y is negative."""
    lines: list[_Line]
    extent: tuple[float, float]

    @staticmethod
    def of(layers: Tables, connections: Tables) -> _Layout:
        """Return the layout: levels along one direction, the layers of a level across it.

        Lines to the next level are straight. Others run in gutters between the levels and in lanes beside all
        layers, each in its own: forward ones before the first layer, feedback after the last.
        """
        level = levels(layers, connections)
        count = 1 + max(level.values(), default=0)
        down = count > _ACROSS
        along, across = (_BOX[1], _BOX[0]) if down else _BOX
        ranks: dict[str, int] = {}
        for name, depth in level.items():
            ranks[name] = sum(level[other] == depth for other in ranks)
        ends = [(table["pre"], table["post"]) for table in connections.values()]
        far = [number for number, (pre, post) in enumerate(ends) if level[post] - level[pre] != 1]
        forward = [number for number in far if level[ends[number][1]] > level[ends[number][0]]]
        back = [number for number in far if number not in forward]
        gutters: dict[int, list[tuple[int, int]]] = {gap: [] for gap in range(count + 1)}
        for number in far:  # a gutter is numbered by the level after it
            gutters[level[ends[number][0]] + 1].append((number, 0))
            gutters[level[ends[number][1]]].append((number, 1))
        starts, place = [], 0.15
        for gap in range(count + 1):
            starts.append(place)
            inside = 0 < gap < count
            place += (0.55 if inside else 0.12) + _LANE * len(gutters[gap]) + along
        length = place - along
        first = 0.2 + _LANE * len(forward)
        pitch = across + 0.3
        most = 1 + max(ranks.values(), default=0)
        last = first + most * pitch
        centre = {
            name: (
                starts[level[name] + 1] - along / 2,
                first
                + pitch * (ranks[name] + (most - sum(v == level[name] for v in level.values())) / 2 + 0.5)
                - 0.15,
            )
            for name in layers
        }
        vertical = {
            each: starts[gap] + (0.2 if 0 < gap < count else 0.06) + _LANE * (order + 0.5)
            for gap, lines in gutters.items()
            for order, each in enumerate(lines)
        }
        ports = _ports(ends, level, centre, across)
        lines = []
        for number, (pre, post) in enumerate(ends):
            begin = centre[pre][0] + along / 2, ports[number, 0]
            end = centre[post][0] - along / 2, ports[number, 1]
            if number not in far:
                fraction = 0.5 if abs(begin[1] - end[1]) < 0.1 else 0.36
                middle = tuple(a + fraction * (b - a) for a, b in zip(begin, end, strict=True))
                lines.append(_Line([begin, end], (middle[0], middle[1])))
                continue
            lane = (
                0.2 + _LANE * forward.index(number)
                if number in forward
                else last + _LANE * back.index(number)
            )
            out, into = vertical[number, 0], vertical[number, 1]
            points = [begin, (out, begin[1]), (out, lane), (into, lane), (into, end[1]), end]
            lines.append(_Line(points, ((out + into) / 2, lane)))
        breadth = last + _LANE * len(back) + 0.1

        def turned(point: tuple[float, float]) -> tuple[float, float]:
            return (point[1], -point[0]) if down else (point[0], -point[1])

        return _Layout(
            {name: turned(point) for name, point in centre.items()},
            [_Line([turned(point) for point in line.points], turned(line.number)) for line in lines],
            (breadth, length + 0.15) if down else (length + 0.15, breadth),
        )


def _ports(
    ends: list[tuple[str, str]], level: dict[str, int], centre: dict[str, tuple[float, float]], across: float
) -> dict[tuple[int, int], float]:
    """Return where each line leaves (0) and enters (1) its layers, across the levels."""
    found = {}
    for side in (0, 1):
        for name in centre:
            mine = [number for number, pair in enumerate(ends) if pair[side] == name]
            mine.sort(key=lambda number: _aim(ends[number], side, level, centre))
            for order, number in enumerate(mine):
                found[number, side] = centre[name][1] + 0.8 * across * ((order + 0.5) / len(mine) - 0.5)
    return found


def _aim(
    pair: tuple[str, str], side: int, level: dict[str, int], centre: dict[str, tuple[float, float]]
) -> float:
    """Return where a line goes across the levels: forward lanes come first, feedback lanes last."""
    span = level[pair[1]] - level[pair[0]]
    return centre[pair[1 - side]][1] if span == 1 else -1e3 if span > 1 else 1e3


def _kind(table: Mapping[str, Any]) -> str:
    return "code" if table["type"] in _CODES else _KINDS.get(table["type"], "other")


def _draw_line(axes: Any, table: Mapping[str, Any], line: _Line, number: int) -> None:
    colour = _LINES.get(table["channel"], _LINES["other"])
    xs, ys = zip(*line.points, strict=True)
    style = (0, (4, 2)) if table["feedback"] else "-"
    axes.plot(xs, ys, color=colour, lw=1.2, ls=style, solid_joinstyle="round", zorder=1)
    arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.2, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 9}
    (x0, y0), (x1, y1) = line.points[-2:]
    part = min(1.0, 0.12 / (((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 or 1.0))
    axes.annotate("", (x1, y1), (x1 - part * (x1 - x0), y1 - part * (y1 - y0)), arrowprops=arrow, zorder=2)
    around = {"boxstyle": "circle,pad=0.12", "fc": "white", "ec": colour, "lw": 0.6}
    axes.text(
        *line.number, str(number), fontsize=6.5, ha="center", va="center", color=colour, bbox=around, zorder=5
    )


def _legend(axes: Any, y: float, layers: Tables, connections: Tables) -> None:
    """Explain the colours and lines that there are."""
    from matplotlib.patches import Rectangle

    x, kinds = 0.15, {_kind(table) for table in layers.values()}
    for name, colour in ((name, colour) for name, colour in _COLOURS.items() if name in kinds):
        axes.add_patch(Rectangle((x, y - 0.06), 0.16, 0.12, fc=colour, ec="#505050", lw=0.6))
        axes.text(x + 0.21, y, name, fontsize=7.5, va="center", color=MUTED)
        x += 0.34 + 0.065 * len(name)
    x += 0.1
    tables = list(connections.values())
    lines = (
        ("added", _LINES["exc"], "-", any(table["channel"] == "exc" for table in tables)),
        ("subtracted", _LINES["inh"], "-", any(table["channel"] == "inh" for table in tables)),
        ("feedback", MUTED, (0, (4, 2)), any(table["feedback"] for table in tables)),
    )
    for name, colour, style in (line[:3] for line in lines if line[3]):
        axes.plot([x, x + 0.3], [y, y], color=colour, lw=1.2, ls=style)
        axes.text(x + 0.35, y, name, fontsize=7.5, va="center", color=MUTED)
        x += 0.5 + 0.065 * len(name)
