"""Runs as notebooks show them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from petabatch.errors import PetabatchError
from petabatch.pixels import about_zero, atlas, data_url, pictures
from petabatch.results.series import Series

_MOST = 1 << 22
"""Weights that are drawn; larger dictionaries take too long to read for a glance."""
_KERNEL = ("pre_feature", "py", "px", "post_feature")


def as_html(text: str, recorded: Sequence[Series]) -> str:
    """Return a run's `repr` in HTML: its first line, the dictionary, and what was recorded."""
    head, _, rest = text.partition("\n")
    count = len(recorded)
    parts = [f"<div><p>{escape(head.strip('<>'))}</p>"]
    parts += [_drawing(series) for series in recorded if series.dims[-4:] == _KERNEL and len(series)][:1]
    if rest:
        listed = escape(rest.rstrip(">"))
        parts.append(f"<details><summary>{count} recorded arrays</summary><pre>{listed}</pre></details>")
    return "".join([*parts, "</div>"])


def _drawing(series: Series) -> str:
    """Return the dictionary as it was last recorded, of the first slice and unit if they differ."""
    name, step = escape(series.name.split("/")[1]), series.steps[-1]
    shape = series.shape[-4:]
    if np.prod(shape) > _MOST:
        return f"<p>{name}: {shape[0]} features, not drawn</p>"
    try:
        weights = series[(-1, *(0,) * (len(series.dims) - 5))].astype(float)
    except PetabatchError as error:
        return f"<pre>{escape(str(error))}</pre>"
    tiles = pictures(about_zero(weights))
    framed = np.pad(tiles, ((0, 0), (0, 1), (0, 1), (0, 0)), constant_values=1.0)
    columns = int(np.ceil(np.sqrt(1.5 * len(tiles) * framed.shape[1] / framed.shape[2])))
    image = atlas(framed, columns)
    width = min(720, 4 * image.shape[1])
    caption = f"{name}: {shape[0]} features of {shape[1]} × {shape[2]} after step {step}, by number"
    style = f'width="{width}" style="image-rendering: pixelated" alt="dictionary"'
    return f'<p><img src="{data_url(image)}" {style}><br>{caption}</p>'
