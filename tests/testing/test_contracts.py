"""Our own types keep the contracts of `petabatch.testing`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import petabatch.builtins  # noqa: F401  all types
from petabatch.connections import Conv
from petabatch.layers import LCA
from petabatch.sources import Function
from petabatch.spec.model import is_built_in
from petabatch.spec.parts import Connection, Layer, Probe
from petabatch.spec.weights import Learning
from petabatch.testing import check_connection, check_layer, check_probe, check_rule
from petabatch.weights import Gaussian, Uniform

SHAPE = (4, 4, 6)
LAYERS: dict[str, dict[str, Any]] = {
    "bins": {},
    "conductance_lif": {"scale": 0.02, "positive": True},
    "constant": {"value": 0.5},
    "dropout": {},
    "firm_cost": {"corner": 0.3},
    "fista": {"threshold": 0.1},
    "gaussian_noise": {},
    "heavy_ball": {"threshold": 0.1, "tau": 5.0},
    "input": {"source": Function(call=lambda slice_, display: np.full(SHAPE, display + slice_, np.float32))},
    "ista": {"threshold": 0.1, "tau": 5.0},
    "lca": {"threshold": 0.1, "tau": 5.0},
    "leaky_integrator": {},
    "linear": {},
    "mask": {},
    "max_unpool": {"window": (2, 2)},
    "momentum_lca": {"threshold": 0.1, "tau": 5.0},
    "neurons": {"equations": "dv/dt = -v / 5", "into": ["v"]},
    "poisson": {},
    "product": {},
    "quotient": {},
    "rectified": {},
    "rescale": {"method": "standard"},
    "retina": {},
    "sigmoid": {},
    "spike_times": {"into": [], "spikes": [[1.0, 0], [3.0, 4]]},
    "squared": {},
}
CONV = {"patch": (3, 3), "init": Gaussian(std=0.3)}
OWNER = {"owner": Conv(pre="pre", post="post", channel="none", **CONV)}
CONNECTIONS: dict[str, dict[str, Any]] = {
    "background": {"post_shape": (4, 4, 7)},
    "clone": {"of": "owner", "with_": OWNER},
    "conv": CONV,
    "identity": {},
    "largest": {"post_shape": (4, 4, 1)},
    "pool": {"post_shape": (2, 2, 6)},
    "potential": {"units": LCA(shape=SHAPE, tau=5.0)},
    "sparse": {"probability": 0.3, "init": Uniform(low=0, high=1), "delays": 2.0},
    "transpose": {"of": "owner", "with_": OWNER},
}
COST = {"layer": "error", "norm": "squares"}
PROBES: dict[str, dict[str, Any]] = {
    "energy": {"error": "error", "code": "code", "coefficient": 0.1},
    "l0": {"layer": "code"},
    "l1": {"layer": "code"},
    "l2": {"layer": "error"},
    "optimality": {
        "image": "images", "reconstruction": "recon", "code": "code", "drive": "drive", "coefficient": 0.05
    },
    "psnr": {"image": "images", "reconstruction": "recon"},
    "quotient": {"numerator": COST, "denominator": {"layer": "images", "norm": "squares"}},
    "spike_statistics": {"layer": "spikes", "every": 4},
    "statistics": {"layer": "code"},
    "sum": {"terms": {"a": COST, "b": {"layer": "code", "norm": "l1"}}},
}  # fmt: skip
RULES: dict[str, dict[str, Any]] = {
    "adam": {"error": "error"},
    "hebbian": {"error": "error", "momentum": 0.5},
    "oja": {},
    "online": {"input": "images", "patch": (2, 2)},
}
ALL = (
    (Layer, LAYERS, check_layer),
    (Connection, CONNECTIONS, check_connection),
    (Probe, PROBES, check_probe),
    (Learning, RULES, check_rule),
)


def test_there_are_keys_of_each_type() -> None:
    for base, keys, _ in ALL:
        assert set(keys) == {name for name, kind in base.choices().items() if is_built_in(kind)}


@pytest.mark.parametrize(
    ("base", "name", "check", "keys"),
    [(base, name, check, keys) for base, table, check in ALL for name, keys in table.items()],
    ids=[f"{base.kind} {name}" for base, table, _ in ALL for name in table],
)
def test_own_types_keep_them(base: Any, name: str, check: Any, keys: dict[str, Any]) -> None:
    print(check(base.choices()[name], **keys))
