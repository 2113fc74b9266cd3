"""Formats of output: nobody but their modules, and the table of them, asks which one a run has."""

from __future__ import annotations

import ast
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

import petabatch
from petabatch.spec.network import Output
from petabatch.storage.files import HDF5, OUTPUTS, output_at, output_in
from petabatch.storage.format import Format, format_of

ROOT = Path(petabatch.__file__).parent
KNOW_IT = ("storage/files.py", "storage/zarr3/", "spec/network.py", "report/installation.py")


@pytest.mark.parametrize("name", OUTPUTS)
def test_each_kind_of_output_has_its_format(name: str) -> None:
    assert isinstance(format_of(OUTPUTS[name]), Format)
    assert set(typing.get_args(Output.model_fields["format"].annotation)) == set(OUTPUTS)


def test_nothing_else_asks_for_a_format_by_its_name() -> None:
    found = []
    for file in sorted(ROOT.rglob("*.py")):
        name = str(file.relative_to(ROOT))
        if not name.startswith(KNOW_IT):
            found += [f"{name}:{line}" for line in named(ast.parse(file.read_text("utf-8")))]
    assert found == []


def named(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that import a module of a format, or name one but in words."""
    words = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
    for one in ast.walk(tree):
        match one:
            case ast.ImportFrom(module=str(text)) | ast.Attribute(attr=text) | ast.Constant(value=str(text)):
                if "zarr" in text.lower() and id(one) not in words:
                    yield one.lineno


def test_the_kind_of_output_is_that_of_what_is_there_then_that_of_the_params(tmp_path: Path) -> None:
    zarr = OUTPUTS["zarr"]
    assert output_in(tmp_path) is HDF5
    (tmp_path / "params.json").write_text('{"output": {"format": "zarr"}}')
    assert output_in(tmp_path) is zarr
    (tmp_path / "run.h5").touch()
    assert output_in(tmp_path) is HDF5
    (tmp_path / "run.h5").unlink()
    (tmp_path / "run.zarr").mkdir()
    (tmp_path / "params.json").unlink()
    assert output_in(tmp_path) is zarr
    assert output_at(tmp_path / "run.zarr") is zarr
    (tmp_path / "run.zarr" / "zarr.json").touch()
    moved = (tmp_path / "run.zarr").rename(tmp_path / "copy")
    assert output_at(moved) is zarr
    assert output_at(tmp_path / "merged.h5") is HDF5
