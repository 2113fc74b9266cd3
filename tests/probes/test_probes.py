"""Probes measure what numpy finds in the layers' activity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.errors import TableError
from petabatch.layers import LCA, Constant, HeavyBall, Input
from petabatch.probes import Cost, Energy, Quotient, Statistics, Sum
from petabatch.spec.parts import Probe
from support.networks import GivenImages, images, lca_network

AT = 15


def measured(probe: Probe, **layers: Any) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return what the probe measures at step AT, and the activity of each layer then."""
    network = lca_network(images(2, 1), displays=1, learn=False)
    network = network.model_copy(update={"probes": {"p": probe}, "layers": {**network.layers, **layers}})
    done = in_memory.run(network, [AT])
    found = {path.split("/")[2]: v[AT - 1] for path, v in done.recorded.items() if path.startswith("probes/")}
    activity = {key.split("/")[1]: v[0].astype(float) for key, v in done.states.items() if key.endswith("/A")}
    return found, activity


def total(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.sum(axis=(1, 2, 3)))


def firm(a: np.ndarray, corner: float) -> np.ndarray:
    return np.where(np.abs(a) < corner, np.abs(a) * (1 - np.abs(a) / (2 * corner)), corner / 2)


@pytest.mark.parametrize("cost", ["l1", "l0", "firm"])
def test_energy_is_half_the_squared_residual_and_the_price_of_the_code(cost: Any) -> None:
    corner = 0.5 if cost == "firm" else None
    found, a = measured(
        Energy(error="error", code="V1", coefficient=0.7, cost=cost, above=0.2, corner=corner)
    )
    each = {"l1": np.abs(a["V1"]), "l0": np.abs(a["V1"]) > 0.2, "firm": firm(a["V1"], 0.5)}[cost]
    np.testing.assert_allclose(found["residual"], 0.5 * total(a["error"] ** 2), rtol=1e-12)
    np.testing.assert_allclose(found["sparsity"], 0.7 * total(each), rtol=1e-6)
    np.testing.assert_allclose(found["total"], found["residual"] + found["sparsity"], rtol=1e-12)
    assert (found["sparsity"] > 0).all()


def test_sum_of_terms_with_coefficients_and_a_mask() -> None:
    half = np.zeros((2, 1, 12, 16, 1), np.float32)
    half[..., 8:, :] = 3
    terms = {
        "fidelity": Cost(layer="error", coefficient=0.5, mask="half"),
        "price": Cost(layer="V1", norm="l1", coefficient=0.4),
    }
    found, a = measured(Sum(terms=terms), half=Input(shape=(12, 16, 1), source=GivenImages(data=half)))
    np.testing.assert_allclose(found["fidelity"], 0.5 * total(a["error"][:, :, 8:] ** 2), rtol=1e-12)
    np.testing.assert_allclose(found["price"], 0.4 * total(np.abs(a["V1"])), rtol=1e-12)
    np.testing.assert_allclose(found["total"], found["fidelity"] + found["price"], rtol=1e-12)


def test_quotient_of_two_costs() -> None:
    found, a = measured(Quotient(numerator=Cost(layer="error"), denominator=Cost(layer="image")))
    np.testing.assert_allclose(found["quotient"], total(a["error"] ** 2) / total(a["image"] ** 2), rtol=1e-12)
    dark = Constant(shape=(12, 16, 3))
    found, _ = measured(Quotient(numerator=Cost(layer="error"), denominator=Cost(layer="dark")), dark=dark)
    assert np.isnan(found["quotient"]).all()


def test_quotient_of_sums_of_costs_and_of_the_root_of_a_sum() -> None:
    above = Cost(layer="error", norm="root", coefficient=3.0)
    below = Cost(layer="image", coefficient=0.5), Cost(layer="V1", norm="l1", coefficient=0.1)
    probe = Quotient(numerator=above, denominator=below)
    assert sorted(probe.layers()) == ["V1", "error", "image"]
    found, a = measured(probe)
    energy = 0.5 * total(a["image"] ** 2) + 0.1 * total(np.abs(a["V1"]))
    np.testing.assert_allclose(found["quotient"], 3 * np.sqrt(total(a["error"] ** 2)) / energy, rtol=1e-6)


def test_statistics_of_a_layer() -> None:
    found, a = measured(Statistics(layer="recon", above=0.1))
    flat = a["recon"].reshape(2, -1)
    expected = {
        "total": flat.sum(1),
        "minimum": flat.min(1),
        "maximum": flat.max(1),
        "mean": flat.mean(1),
        "std": flat.std(1),
        "active": (np.abs(flat) > 0.1).sum(1),
    }
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("corner", [None, 0.5])
def test_a_corner_belongs_to_the_firm_cost(corner: float | None) -> None:
    wrong: Any = "l1" if corner else "firm"
    with pytest.raises(TableError, match="corner"):
        Cost(layer="V1", norm=wrong, corner=corner)
    with pytest.raises(TableError, match="corner"):
        Energy(error="error", code="V1", coefficient=1, cost=wrong, corner=corner)


@pytest.mark.parametrize("kind", [LCA, HeavyBall])
def test_a_layer_that_is_reset_starts_each_image_from_its_initial_potential(kind: type[LCA]) -> None:
    network = lca_network(images(1, 2), display=10, displays=2, learn=False, kernel="array")

    def potentials(reset: Any) -> np.ndarray:
        code = kind(shape=(6, 8, 12), tau=20.0, threshold=0.4, reset=reset)
        changed = network.model_copy(update={"layers": {**network.layers, "V1": code}})
        return in_memory.run(changed, [1, 10, 11]).states["layers/V1/V"]

    anew, on = potentials("display"), potentials("never")
    np.testing.assert_array_equal(anew[1], on[1])
    assert np.abs(anew[2]).max() < 0.5 * np.abs(on[2]).max()
