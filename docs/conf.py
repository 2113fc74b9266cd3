"""The site: `sphinx-build -q -W --keep-going -c docs . build/site`, started in the root of the repository.

The sources are the Markdown files of the repository where they are, so that links are the same in both views.
"""

import shutil
from pathlib import Path
from typing import Any

from petabatch.version import __version__

project = "petabatch"
author = "The petabatch developers"
release = __version__
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    ".github/*.md",
    "docs/*.md",
    "demos/README.md",
    "demos/*/README.md",
    "benchmarks/*.md",
    "tests/petavision/README.md",
    "tests/petavision/golden/README.md",
]
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"petabatch {__version__}"
html_copy_source = False
html_show_sphinx = False
html_use_index = False

CONTENTS = {
    "Start": [
        "docs/tutorial",
        "docs/python",
        "docs/concepts",
        "demos/README",
        "docs/troubleshooting",
    ],
    "Sparse coding": [f"docs/{name}" for name in ("inputs", "datasets", "learning", "encoding", "until")],
    "Neurons, oscillators, rates": ["docs/equations", "docs/spikes", "docs/whole-brain"],
    "Experiments": [f"docs/{name}" for name in ("experiments", "simulator", "plots", "gallery")],
    "Moving from": [
        "docs/coming-from-petavision",
        "docs/petavision-classes",
        "docs/coming-from-brian2",
        "docs/coming-from-lca-pytorch",
    ],
    "Clusters, GPUs": [f"docs/{name}" for name in ("ranks", "scaling", "gpu", "interruptions")],
    "Reference": [f"docs/{name}" for name in ("params", "api", "file-format", "glossary", "security")],
    "Development": [
        "docs/architecture",
        "docs/extending",
        "CONTRIBUTING",
        "benchmarks/README",
        "benchmarks/RESULTS",
        "tests/petavision/README",
        "tests/petavision/golden/README",
        "CHANGELOG",
        ".github/SUPPORT",
        ".github/SECURITY",
    ],
}
"""The pages in order, below captions; the demos are listed by themselves."""


def toctree(pages: list[str], *options: str) -> str:
    """Return a table of contents, which is in the sidebar and not on the page."""
    entries = "\n".join(f"/{page}" for page in pages)
    return "\n".join(["", "```{toctree}", ":hidden:", *options, "", entries, "```", ""])


def add_contents(app: Any, name: str, source: list[str]) -> None:
    """Append the contents to the first page, and the demos to their gallery."""
    if name == root_doc:
        source[0] += "".join(toctree(pages, f":caption: {title}") for title, pages in CONTENTS.items())
    elif name == "demos/README":
        source[0] += toctree(
            sorted(page for page in app.env.found_docs if page.startswith("demos/") and page != name)
        )


def add_index(app: Any, error: Exception | None) -> None:
    """Make the README the first page of the site also for who opens its folder."""
    if error is None and app.builder.name == "html":
        shutil.copy(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Any) -> None:
    """Connect both."""
    app.connect("source-read", add_contents)
    app.connect("build-finished", add_index)
