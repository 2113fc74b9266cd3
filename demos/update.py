"""What is derived in the demos: the notebooks, made from the scripts, and the figures of the pages.

    python demos/update.py                     make demos/*/demo.ipynb from demos/*/demo.py
    python demos/update.py --figures seeds     put runs/demos/seeds.png in the place of the page's figure

A script begins with a docstring, which is the notebook's first cell; `# %%` begins a cell of code,
`# %% [markdown]` one of text.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from pathlib import Path

DEMOS = Path(__file__).parent
ROOT = """\
import os
from pathlib import Path

# Paths are relative to the root of the repository.
os.chdir(next(folder for folder in (Path.cwd(), *Path.cwd().parents) if (folder / "demos").is_dir()))"""


def notebook(script: str) -> str:
    """Return the notebook of a script, without outputs, as the text of an .ipynb file."""
    title = ast.get_docstring(ast.parse(script))
    assert title is not None, "a demo begins with a docstring"
    cells = [("markdown", title), ("code", ROOT)]
    for part in re.split(r"^# %%", script, flags=re.MULTILINE)[1:]:
        mark, _, text = part.partition("\n")
        if mark.strip() == "[markdown]":
            cells.append(("markdown", re.sub(r"^# ?", "", text, flags=re.MULTILINE)))
        else:
            cells.append(("code", text))
    document = {
        "cells": [_cell(number, kind, text.strip()) for number, (kind, text) in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, kind: str, text: str) -> dict[str, object]:
    cell = {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}


def put_figure(name: str) -> None:
    """Put the figure of a demo's last run in the place of that of its page."""
    from PIL import Image

    with Image.open(f"runs/demos/{name}.png") as figure:
        figure.convert("RGB").save(DEMOS / name / "figure.png", optimize=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make the notebooks of the demos from their scripts.")
    parser.add_argument(
        "--figures", nargs="+", default=(), metavar="DEMO", help="replace the figures of these demos' pages"
    )
    for demo in parser.parse_args().figures:
        put_figure(demo)
    for file in DEMOS.glob("*/demo.py"):
        file.with_suffix(".ipynb").write_text(notebook(file.read_text()))
