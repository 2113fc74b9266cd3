"""Compiled rules: their names and numbers, and what happens where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from petabatch.kernels.cpu.program import units
from petabatch.kernels.cpu.rules import update
from petabatch.kernels.rules import RULES, rule_number
from petabatch.spec.compiled import CompiledRule


def test_rules_of_codes_and_of_other_layers_have_different_names_and_numbers() -> None:
    assert not RULES.keys() & units.RULES.keys()
    assert len(set(RULES.values())) == len(RULES)
    assert max(RULES.values()) < units.LINEAR == min(units.RULES.values())


@pytest.mark.parametrize("rule", [max(RULES.values()) + 1, max(units.RULES.values()) + 1])
def test_a_rule_without_a_branch_makes_its_layer_nan(rule: int) -> None:
    f, a = np.float32, [np.ones(8, np.float32) for _ in range(6)]
    unknown = CompiledRule("").cell(rule, 1)
    units.apply(unknown, (f(0), f(1)), f(1), f(1), a[0], a[2], a[3], a[4], a[5])
    assert np.isnan(a[3]).all()
    if rule < units.LINEAR:
        update(a[0], a[1], a[4], a[5], f(1), f(1), unknown)
        assert np.isnan(a[1]).all()


def test_an_unknown_rule_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match=r"no compiled rule 'mispelled'; known are .*heavy_ball"):
        rule_number("mispelled")
