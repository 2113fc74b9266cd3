"""Signatures of tables, which editors and `help` show."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

from petabatch import connections, layers, learning, probes, sources, weights
from petabatch.layers import LCA
from petabatch.spec.model import Model
from petabatch.spec.network import Network, Run


@pytest.mark.parametrize("module", [connections, layers, learning, probes, sources, weights])
def test_a_table_has_the_signature_of_its_keys(module: ModuleType) -> None:
    tables: list[type[Model]] = [Network, Run]
    tables += [one for one in vars(module).values() if inspect.isclass(one) and issubclass(one, Model)]
    assert len(tables) > 3
    for table in tables:
        found = inspect.signature(table)
        assert found.parameters.keys() == table.model_fields.keys() - {"type"}
        for key, one in found.parameters.items():
            assert one.kind is one.KEYWORD_ONLY
            assert (one.default is one.empty) == table.model_fields[key].is_required(), key
        for word in ("Annotated", "FieldInfo", "Serializer", "Validator", "factory"):
            assert word not in str(found)


def test_a_signature_is_the_same_once_a_table_was_built() -> None:
    before = str(inspect.signature(LCA))
    assert "shape: tuple[int, int, int]" in before
    assert "threshold: float = 0.5" in before
    LCA(shape=(1, 1, 1))
    assert str(inspect.signature(LCA)) == before
