"""The docs say what the code does."""

from __future__ import annotations

from pathlib import Path

from petabatch import catalog, simulation
from petabatch.spec.reference import markdown

REPOSITORY = Path(__file__).parents[1]


def test_the_reference_of_keys_is_up_to_date() -> None:
    assert catalog
    text = (REPOSITORY / "docs" / "params.md").read_text()
    assert text == markdown(), "write it anew: petabatch schema --markdown > docs/params.md"


def test_every_shipped_params_file_is_valid() -> None:
    files = [*REPOSITORY.glob("params/*.toml"), *REPOSITORY.glob("demos/**/*.toml")]
    assert len(files) >= 3
    for file in files:
        simulation.plan(simulation.read(file))


def test_links_of_the_docs_lead_somewhere() -> None:
    for page in [REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md", *REPOSITORY.glob("docs/*.md")]:
        for part in page.read_text().split("](")[1:]:
            target = part.split(")")[0].split("#")[0]
            if target and not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page}: {target}"
