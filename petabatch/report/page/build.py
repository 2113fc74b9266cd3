"""Assembly of the report: texts, tables, drawings and data in one HTML file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from textwrap import dedent
from typing import Any

from petabatch import results
from petabatch.errors import InputError, printable
from petabatch.plotting.table import times_as_csv
from petabatch.report.information import describe
from petabatch.report.lines import LABEL
from petabatch.report.page import content
from petabatch.report.page.figures import Drawing, drawings
from petabatch.report.page.figures import network as network_drawing
from petabatch.report.page.lead import lead
from petabatch.report.times import spent
from petabatch.results import Results

_TABLES = ("recorded", "points")
"""Fields of `petabatch info` that are tables, in lines of their own."""
_TITLES = {
    "sweep": "Points of the sweep",
    "raster": "Spikes and rates",
    "traces": "Dynamics",
    "phase": "Dynamics",
}
"""Titles of the section that leads, by its first figure."""
_CURVES = (
    '<p class="hint">Means over slices; bands are percentiles 10 to 90 of the slices. '
    "Drag to zoom in, double-click to see everything.</p>"
)


def report(folder: Path, output: Path) -> None:
    """Write the report of a run: an HTML file that contains everything it shows, and loads nothing.

    Raises InputError if the file cannot be written, and what `petabatch.open` raises.
    """
    with results.open(folder) as run:
        page = build(run, describe(folder))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{output}: the report cannot be written: {error.strerror or error}") from error


def build(run: Results, information: str) -> str:
    """Return the page; `information` is the text of `petabatch info`."""
    about, params = run.attributes, run.params
    found, network = drawings(run), network_drawing(run)
    times = dict(sorted(spent(about).items(), key=lambda pair: -pair[1]))
    data = {
        "curves": content.curves(run),
        "dictionaries": content.dictionaries(run),
        "reconstructions": content.reconstructions(run),
        "tables": {drawing.name: drawing.csv for drawing in (*found, network)}
        | {"time": times_as_csv(times)},
    }
    body = '<div class="body"></div>'
    given = _text(about.get("params_given", "") or json.dumps(params, indent=2))
    coded = [drawing for drawing in found if drawing.name == "sparsity"]
    first = [drawing for drawing in found if drawing.name != "sparsity"]
    sections = [
        _section("figures", _TITLES.get(first[0].name, "") if first else "", "".join(map(_figure, first))),
        _section("reconstructions", "Reconstructions", body if data["reconstructions"] else ""),
        _section("dictionary", "Dictionary", body if data["dictionaries"] else ""),
        _section("sparsity", "Sparsity", "".join(map(_figure, coded))),
        _section("curves", "Curves", f"{_CURVES}{body}" if data["curves"] else ""),
        _section("network", "Network", _figure(network)),
        _section("params", "Params", f"{_overrides(about.get('overrides', []))}<pre>{given}</pre>"),
        _section("time", "Where the time went", _times(times)),
        _section("provenance", "Provenance", _table(rows(information))),
        _section("cite", "How to cite", f"<pre>{_text(citation(about))}</pre>"),
    ]
    assets = files("petabatch.report.page")
    return Template(assets.joinpath("page.html").read_text("utf-8")).substitute(
        title=_text(params.get("title") or run.path.parent.name),
        style=assets.joinpath("page.css").read_text("utf-8"),
        script=assets.joinpath("page.js").read_text("utf-8"),
        # In a script element, only "<" could end it.
        data=json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        lead="".join(f"<li>{_text(sentence)}</li>" for sentence in lead(run)),
        contents=" ".join(link for link, _ in sections if link),
        sections="\n".join(section for _, section in sections if section),
        version=_text(about["petabatch_version"]),
    )


def rows(information: str) -> list[tuple[str, str]]:
    """Return the lines of `petabatch info` as labels and values; a line without a label goes on.

    Tables keep their lines.
    """
    found: list[tuple[str, str]] = []
    for line in information.splitlines():
        label, value = line[:LABEL].strip(), line[LABEL:].strip()
        if line.startswith(" ") and found and found[-1][0] in _TABLES:
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line}")
        elif label:
            found.append((label, value))
        elif found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {value}")
    return [(label, dedent(value).strip("\n")) for label, value in found]


def citation(about: dict[str, Any]) -> str:
    """Return how to cite the program and the algorithm, as BibTeX."""
    version, commit = about["petabatch_version"], about.get("git", "unknown")
    return (
        "@software{petabatch,\n  title = {petabatch: batches of dynamical networks},\n"
        f"  author = {{{{The petabatch developers}}}},\n  version = {{{version}}},\n"
        f"  note = {{commit {commit}}}\n}}\n\n"
        "@article{rozell2008,\n"
        "  title = {Sparse Coding via Thresholding and Local Competition in Neural Circuits},\n"
        "  author = {Rozell, Christopher J. and Johnson, Don H. and Baraniuk, Richard G. and "
        "Olshausen, Bruno A.},\n"
        "  journal = {Neural Computation}, volume = {20}, number = {10}, pages = {2526--2563},\n"
        "  year = {2008}, doi = {10.1162/neco.2008.03-07-486}\n}\n"
    )


def _figure(drawing: Drawing) -> str:
    """Return a figure of the page; the script adds what saves it."""
    return (
        f'<figure class="drawing" data-name="{drawing.name}" role="img" '
        f'aria-label="{_text(drawing.alternative)}">{drawing.svg}</figure>'
    )


def _section(name: str, title: str, body: str) -> tuple[str, str]:
    """Return the link to a section, and the section; both empty where there is nothing to show."""
    if not body:
        return "", ""
    return f'<a href="#{name}">{title}</a>', f'<section id="{name}"><h2>{title}</h2>{body}</section>'


def _times(times: dict[str, float]) -> str:
    """Return bars of what the time went into; the script adds what saves their numbers."""
    if not times:
        return "<p>not recorded</p>"
    whole = max(sum(times.values()), 1e-9)
    bars = (
        f'<tr><th>{_text(name)}</th><td><span class="bar" style="width:{16 * seconds / whole:.2f}em"></span> '
        f"{seconds:.1f} s, {100 * seconds / whole:.1f} %</td></tr>"
        for name, seconds in times.items()
    )
    return f'<div class="times"><table>{"".join(bars)}</table></div>'


def _overrides(texts: Iterable[str]) -> str:
    """Return what was set on the command line, which is not in the params file."""
    items = "".join(f"<li><code>{_text(text)}</code></li>" for text in texts)
    return f"<p>Set on the command line, in place of what the file has:</p><ul>{items}</ul>" if items else ""


def _table(pairs: Iterable[tuple[str, str]]) -> str:
    body = (f"<tr><th>{_text(label)}</th>{_cell(value)}</tr>" for label, value in pairs)
    return f"<table>{''.join(body)}</table>"


def _cell(value: str) -> str:
    return f"<td><pre>{_text(value)}</pre></td>" if "\n" in value else f"<td>{_text(value)}</td>"


def _text(value: object) -> str:
    return escape(printable(str(value)))
