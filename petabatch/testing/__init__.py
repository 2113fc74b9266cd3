"""Contracts of types of parts, for tests of your own: each is run in small networks.

`check_layer`, `check_connection`, `check_probe` and `check_rule` take a class and keys, and raise
ContractError with everything that does not hold.
"""

from __future__ import annotations

from petabatch.errors import ContractError as ContractError
from petabatch.testing.connections import check_connection as check_connection
from petabatch.testing.contract import Contract as Contract
from petabatch.testing.layers import check_layer as check_layer
from petabatch.testing.probes import check_probe as check_probe
from petabatch.testing.rules import check_rule as check_rule

__all__ = ["Contract", "ContractError", "check_connection", "check_layer", "check_probe", "check_rule"]
