"""Consistency of the documentation with the code."""

from __future__ import annotations

import ast
import re
import runpy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from petabatch import builtins, simulation
from petabatch.petavision.aliases import CLASSES as FORMER
from petabatch.petavision.keys import CLASSES
from petabatch.report.installation import installation
from petabatch.spec.reference import markdown
from petabatch.spec.schema import json_schema
from petabatch.version import __version__
from support.docs import PAGES

REPOSITORY = Path(__file__).parents[2]


def test_the_reference_of_keys_is_up_to_date() -> None:
    assert builtins
    text = (REPOSITORY / "docs" / "params.md").read_text()
    assert text == markdown(), "regenerate it: petabatch schema --markdown > docs/params.md"


def test_the_python_api_is_up_to_date() -> None:
    page = runpy.run_path(str(REPOSITORY / "docs" / "api.py"))["page"]
    assert (REPOSITORY / "docs" / "api.md").read_text() == page(), "python docs/api.py > docs/api.md"


def test_the_reference_of_petavisions_classes_is_up_to_date() -> None:
    page = runpy.run_path(str(REPOSITORY / "docs" / "petavision.py"))["page"]
    found = (REPOSITORY / "docs" / "petavision-classes.md").read_text()
    assert found == page(), "python docs/petavision.py > docs/petavision-classes.md"


def test_the_table_of_petavisions_names_has_what_is_imported_and_what_it_becomes() -> None:
    """Classes, parameters and values are ones that the import reads; types and keys are in the reference."""
    page = (REPOSITORY / "docs" / "coming-from-petavision.md").read_text().partition("## Names")[2]
    reference = set(re.findall(r"\w+", (REPOSITORY / "docs" / "params.md").read_text()))
    read = {key for one in CLASSES.values() for key in one.keys}
    for file in (REPOSITORY / "petabatch" / "petavision").rglob("*.py"):
        constants = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant))
        read |= {node.value for node in constants if isinstance(node.value, str)}
    rows = [line for line in page.partition("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 40
    for row in rows:
        theirs, ours = row.strip("| ").split(" | ")
        named = set(re.findall(r"\b[A-Z]\w*[a-z]\w*[A-Z]\w*|\b[A-Z]{3}\w*", theirs))
        quoted = {word for text in re.findall("`(.*?)`", theirs) for word in re.findall(r"[A-Za-z]\w*", text)}
        assert not (unread := (named | quoted) - read - set(CLASSES) - set(FORMER)), (row, unread)
        types = {word for text in re.findall("`(.*?)`", ours) for word in re.findall(r"\b[a-z]\w*", text)}
        assert not (unknown := types - reference), (row, unknown)
        for name in named & set(CLASSES):
            becomes = set(re.findall(r"\w+", CLASSES[name].becomes))
            assert becomes & set(re.findall(r"\w+", ours)), (row, name, becomes)


def test_every_type_that_a_page_names_is_one_of_the_schema() -> None:
    """Or of a plug-in that the page has."""
    known, named = set(_types(json_schema())), 0
    assert len(known) > 80
    for page in PAGES:
        text = page.read_text()
        own = set(re.findall(r'\btype: Literal\["(\w+)"\]', text))
        for line, code in enumerate(text.splitlines(), 1):
            given = set(re.findall(r'\btype"?\s*[=:]\s*"(\w+)"', code))
            named += len(given)
            assert not (unknown := given - known - own), f"{page}:{line}: {unknown}"
    assert named > 60


def _types(schema: Any) -> Iterator[str]:
    """Yield the types of all tables in a JSON Schema."""
    if isinstance(schema, dict):
        one = schema.get("properties")
        table = one.get("type") if isinstance(one, dict) else None
        if isinstance(table, dict):
            yield from table.get("enum", ())
            yield from [table["const"]] if "const" in table else ()
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _types(inner)


def test_every_shipped_params_file_is_valid() -> None:
    files = [*REPOSITORY.glob("params/*.toml"), *REPOSITORY.glob("demos/**/*.toml")]
    assert len(files) >= 3
    for file in files:
        simulation.plan(simulation.read(file))


def test_links_of_the_docs_lead_somewhere() -> None:
    pages = [page for folder in (".", "docs", "benchmarks") for page in REPOSITORY.glob(f"{folder}/*.md")]
    assert len(pages) >= 12
    for page in pages:
        for part in page.read_text().split("](")[1:]:
            target = part.split(")")[0].split("#")[0]
            if target and not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page}: {target}"


def test_the_readme_links_to_every_page() -> None:
    text = (REPOSITORY / "README.md").read_text()
    for page in REPOSITORY.glob("docs/*.md"):
        assert f"](docs/{page.name})" in text


def test_the_readme_lists_the_extras() -> None:
    text = (REPOSITORY / "README.md").read_text().split("Optional dependencies")[1].split("\n\n")[0]
    listed = set(re.findall(r"`([\w-]+)`", text))
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert listed == set(extras)


def test_info_lists_the_extras_that_users_may_lack() -> None:
    line = next(line for line in installation().splitlines() if line.startswith("extras "))
    listed = set(re.findall(r"([\w-]+) (?:yes|no)", line))
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        extras = set(tomllib.load(file)["project"]["optional-dependencies"])
    of_gpus, of_developers = {"gpu", "gpu-cuda12"}, {"test", "frameworks", "nvrtc", "dev", "docs"}
    assert listed == extras - of_gpus - of_developers - {"benchmarks", "all"}


def test_the_citation_has_this_version() -> None:
    assert f"\nversion: {__version__}\n" in (REPOSITORY / "CITATION.cff").read_text()


def test_the_conda_recipe_has_this_version_and_the_dependencies() -> None:
    text = (REPOSITORY / ".ci" / "conda" / "recipe.yaml").read_text()
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    listed = re.findall(r"    - (\S+) (>=\S+)", text.partition("  run:")[2].partition("tests:")[0])
    assert f"\n  version: {__version__}\n" in text
    assert f'python_min: "{project["requires-python"].removeprefix(">=")}"' in text
    assert {f"{name}{least}" for name, least in listed if name != "python"} == set(project["dependencies"])


def test_messages_in_troubleshooting_are_those_of_the_code() -> None:
    rows = (REPOSITORY / "docs" / "troubleshooting.md").read_text().split("## By message")[1].splitlines()
    messages = [text for row in rows[4:] for text in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    sources = "".join(file.read_text() for file in REPOSITORY.glob("petabatch/**/*.py"))
    assert len(messages) >= 10
    for message in messages:
        assert message in sources, f"no message of petabatch contains {message!r}"


def test_each_system_test_of_petavision_is_answered_by_a_test_that_exists() -> None:
    text = (REPOSITORY / "tests" / "petavision" / "README.md").read_text()
    rows = [
        line.split(" | ") for line in text.split("one by one\n\nAll 155")[1].splitlines() if line[:1] == "|"
    ]
    names = [name.strip("| ") for row in rows[2:] for name in row[0].split(",")]
    assert len(names) == len(set(names)) == 155
    answers = re.findall(r"`([\w/]+\.py)::(test_\w+)`", text)
    assert answers
    for file, name in answers:
        assert f"def {name}(" in (REPOSITORY / "tests" / file).read_text(), f"{file}::{name}"
