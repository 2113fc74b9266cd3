"""The drawing of docs/concepts.md: `python docs/concepts.py` writes docs/concepts.svg."""

from __future__ import annotations

import colorsys
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 900, 700
INK, MUTED, RANK, UPDATE = "#262626", "#606060", "#eef2f6", "#D55E00"
SLICES = ("#0072B2", "#E69F00", "#009E73")
RANKS = (3, 3, 2)
UPDATED = "update of weights that all slices share: their changes are summed"


def text(x: float, y: float, words: str, size: int = 13, anchor: str = "middle", **style: str) -> str:
    """Return a line of text; `fill`, `weight` and `family` are styles."""
    given = {"fill": INK, "weight": "normal", "family": "sans-serif", **style}
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{given["fill"]}" '
        f'font-weight="{given["weight"]}" font-family="{given["family"]}">{escape(words)}</text>'
    )


def box(x: float, y: float, width: float, height: float, fill: str, stroke: str = "none", r: int = 0) -> str:
    """Return a rectangle."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{r}" fill="{fill}" '
        f'stroke="{stroke}"/>'
    )


def line(x0: float, y0: float, x1: float, y1: float, stroke: str, width: float = 1.0, more: str = "") -> str:
    """Return a line."""
    return (
        f'<line x1="{x0:g}" y1="{y0:g}" x2="{x1:g}" y2="{y1:g}" stroke="{stroke}" '
        f'stroke-width="{width:g}" {more}/>'
    )


def batch() -> list[str]:
    """Return the upper half: slices on ranks, displays from top to bottom, updates across all."""
    left, pitch, gap, top, tall = 120.0, 84.0, 24.0, 92.0, 78.0
    drawn = [
        text(20, 28, "A batch of 8 slices on 3 ranks", 16, "start", weight="bold"),
        line(44, top, 44, top + 2 * tall + 76, MUTED, 1.4, 'marker-end="url(#arrow)"'),
        text(44, top - 10, "time", 13, fill=MUTED),
    ]
    x, number, end = left, 0, left
    for rank, count in enumerate(RANKS):
        width = count * pitch
        drawn += [
            box(x, 44, width, 2 * tall + 122, RANK, r=8),
            text(x + width / 2, 62, f"rank {rank}", 13, weight="bold"),
        ]
        for place in range(count):
            middle = x + (place + 0.5) * pitch
            drawn.append(text(middle, 82, f"slice {number}", 12, fill=MUTED))
            for display in range(2):
                y = top + display * (tall + 34)
                drawn.append(box(middle - 26, y, 52, tall, "#ffffff", "#9aa4ae", 3))
                drawn += [
                    line(middle - 26, y + s, middle + 26, y + s, "#d5dbe1") for s in range(8, int(tall), 8)
                ]
            number += 1
        end, x = x + width, x + width + gap
    for display in range(2):
        y = top + display * (tall + 34)
        drawn += [
            text(left - 8, y + 36, f"display {display + 1}", 12, "end"),
            text(left - 8, y + 52, "many steps", 11, "end", fill=MUTED),
            box(left - 6, y + tall + 7, end - left + 12, 20, UPDATE, r=4),
            text((left + end) / 2, y + tall + 21, UPDATED, 12, fill="#ffffff"),
        ]  # fmt: skip
    return drawn


def colour(position: int, number: int) -> str:
    """Return a colour for each position and slice."""
    hue = (position / 9 + number / 27) % 1
    red, green, blue = colorsys.hls_to_rgb(hue, (0.42, 0.58, 0.74)[number], 0.6)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def units(x: float, y: float, colours: list[str], side: float = 26.0) -> list[str]:
    """Return a layer of 3 x 3 units."""
    return [
        box(x + side * (unit % 3), y + side * (unit // 3), side - 2, side - 2, fill, r=3)
        for unit, fill in enumerate(colours)
    ]


def modes() -> list[str]:
    """Return the lower half: which units have the same weights, in the four modes."""
    top = 370.0
    drawn = [
        text(20, top, "Weight modes: units of one colour have the same weights", 16, "start", weight="bold"),
        text(330, top + 30, "all slices share", 13),
        text(690, top + 30, "each slice has its own", 13),
        text(70, top + 92, "one kernel for", 13),
        text(70, top + 110, "all positions", 13),
        text(70, top + 238, "one patch for", 13),
        text(70, top + 256, "each unit", 13),
    ]
    for row, column, name in (
        (0, 0, "extra_shared"), (0, 1, "shared"), (1, 0, "extra_non_shared"), (1, 1, "non_shared")
    ):  # fmt: skip
        x, y = 160 + 360 * column, top + 44 + 146 * row
        drawn += [
            box(x, y, 340, 134, "#ffffff", "#c4ccd4", 6),
            text(x + 170, y + 20, name, 14, weight="bold", family="monospace"),
        ]
        for number in range(3):
            if row == 0:
                colours = [SLICES[number if column else 0]] * 9
            else:
                colours = [colour(unit, number if column else 0) for unit in range(9)]
            drawn += units(x + 34 + 98 * number, y + 32, colours)
            drawn.append(text(x + 34 + 98 * number + 38, y + 126, f"slice {number}", 11, fill=MUTED))
    return drawn


def main() -> None:
    """Write the drawing."""
    arrow = (
        '<defs><marker id="arrow" markerWidth="9" markerHeight="9" refX="6" refY="3" orient="auto">'
        f'<path d="M0,0 L6,3 L0,6 z" fill="{MUTED}"/></marker></defs>'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    title = "<title>Slices, ranks, weight updates and the four weight modes</title>"
    drawing = [head, title, arrow, box(0, 0, WIDTH, HEIGHT, "#ffffff"), *batch(), *modes(), "</svg>"]
    Path(__file__).with_name("concepts.svg").write_text("\n".join(drawing) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
