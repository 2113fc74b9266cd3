"""Texts of figures as boxes: within the page, and apart from each other."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np


def written(figure: Any) -> list[Any]:
    """Return the texts that are drawn: of ticks, the labels that are in view."""
    found = [text for text in figure.findobj(mpl.text.Text) if text.get_visible() and text.get_text()]
    hidden = set()
    for axes in figure.findobj(mpl.axes.Axes):
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not axes.axison or not min(limits) <= tick.get_loc() <= max(limits):
                    hidden |= {tick.label1, tick.label2}
            hidden |= set() if axes.axison else {axis.label}
    return [text for text in found if text not in hidden]


def assert_texts_can_be_read(figure: Any) -> None:
    """Assert that no text is cut at the edge of the figure, drawn over another one, or a formula."""
    figure.set_dpi(200)  # that of files
    figure.draw_without_rendering()
    assert figure.get_figheight() <= 9.5  # inches of a page
    page, texts = figure.bbox, written(figure)
    boxes = [text.get_window_extent() for text in texts]
    for text, box in zip(texts, boxes, strict=True):
        assert "$" not in text.get_text()
        assert page.contains(*box.min), text.get_text()
        assert page.contains(*box.max), text.get_text()
    corners = np.array([[*box.min, *box.max] for box in boxes])
    low = np.maximum(corners[:, None, :2], corners[None, :, :2])
    high = np.minimum(corners[:, None, 2:], corners[None, :, 2:])
    common = np.maximum(high - low, 0).prod(axis=-1)
    area = (corners[:, 2:] - corners[:, :2]).prod(axis=-1)
    over = np.argwhere(np.triu(common > 0.1 * np.minimum(area[:, None], area[None]), 1))  # lines may touch
    collisions = [(texts[one].get_text(), texts[other].get_text()) for one, other in over]
    assert not collisions, collisions
