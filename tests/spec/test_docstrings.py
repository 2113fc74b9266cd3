"""Docstrings of keys, and validators that are built late."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from petabatch import simulation
from petabatch.errors import ParamsError
from petabatch.layers import LCA, Constant
from petabatch.spec.docstrings import docstrings
from petabatch.spec.model import Count, Model
from petabatch.spec.parts import Layer


class Table(Model):
    """A table."""

    first: Count = 1
    """The first
    key."""
    plain: Count = 2

    inherited: Count = 3
    """Described once."""


class Derived(Table):
    first: Count = 10
    other: Count = 4
    """Another key."""


def test_keys_are_described_by_their_docstrings() -> None:
    assert docstrings(Table) == {"first": "The first\nkey.", "inherited": "Described once."}
    assert docstrings(LCA)["shape"] == docstrings(Layer)["shape"]


def test_a_key_that_is_declared_again_is_described_again() -> None:
    assert docstrings(Derived) == {"inherited": "Described once.", "other": "Another key."}


def test_the_schema_has_the_docstrings() -> None:
    properties = Constant.model_json_schema()["properties"]
    assert properties["value"]["description"] == "Activity of every unit."
    assert properties["shape"]["description"] == docstrings(Layer)["shape"]


def test_importing_the_types_builds_no_validators() -> None:
    code = (
        "import petabatch.builtins\n"
        "from petabatch.spec.model import Part\n"
        "kinds = Part.__subclasses__()\n"
        "print(sum(t.__pydantic_complete__ for kind in kinds for t in kind.choices().values()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


def test_a_plug_in_with_a_key_of_no_known_type_is_refused_on_import(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "from typing import Literal\n"
        "from petabatch.layers import Constant\n"
        "class Unknown: pass\n"
        "class Wrong(Constant):\n"
        "    type: Literal['wrong'] = 'wrong'\n"
        "    key: Unknown\n"
    )
    file = tmp_path / "params.toml"
    file.write_text('plugins = ["wrong.py"]\n[run]\nsteps = 1\n')
    with pytest.raises(ParamsError, match=r"(?s)a plug-in cannot be imported.*wrong\.py:4"):
        simulation.read(file)
