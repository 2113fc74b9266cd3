"""Integration methods: orders of convergence, the exact propagator, the choice, and stability limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm, solve_continuous_lyapunov

from petabatch.equations.arrays import evaluate
from petabatch.equations.methods import stability_limit
from petabatch.equations.propagator import covariance, factor, propagator
from petabatch.equations.read import Texts, WrongTexts, read_step
from petabatch.equations.source import row_source
from petabatch.equations.step import Step

NONLINEAR = Texts("dx/dt = y + sin(t)\ndy/dt = k * (1 - x ** 2) * y - x", parameters=("k",))
"""Van der Pol's oscillator, driven."""
OWN = Texts("dx/dt = (cos(y) - x) / 3 + c\ndy/dt = -y * x + c\nc = 0.2 * t")
"""Each equation is linear in its own variable."""
CHAIN = Texts("dv/dt = (g + h - v + I) / tau\ndg/dt = (h - g) / tau\ndh/dt = -h / 3 + 0.1", ("I",), ("tau",))


def solved(
    step: Step, values: Mapping[str, float], start: Mapping[str, float], dt: float, end: float
) -> list[float]:
    """Return the variables at the end, step by step."""
    numbers, state = step.numbers(values, dt, 0.0), dict(start)
    for number in range(round(end / dt)):
        found = {
            **numbers,
            **state,
            **{f"{name}__in": 0.0 for name in state},
            "t": number * dt,
            "I": 0.7,
            "A": 0.0,
        }
        for line in step.lines:
            found[line.name] = evaluate(line.value, found)
        state = {name: found[line] for name, line in step.state.items()}
    return [float(state[name]) for name in start]


@pytest.mark.parametrize(
    ("method", "texts", "order"),
    [
        ("euler", NONLINEAR, 1),
        ("heun", NONLINEAR, 2),
        ("rk4", NONLINEAR, 4),
        ("exponential_euler", OWN, 1),
        ("euler", OWN, 1),
        ("rk4", OWN, 4),
    ],
)
def test_methods_converge_with_their_order(method: str, texts: Texts, order: int) -> None:
    step = read_step(Texts(texts.equations, parameters=texts.parameters, method=method))

    def derivative(t: float, x: np.ndarray) -> list[float]:
        if texts is NONLINEAR:
            return [x[1] + math.sin(t), 1.3 * (1 - x[0] ** 2) * x[1] - x[0]]
        return [(math.cos(x[1]) - x[0]) / 3 + 0.2 * t, -x[1] * x[0] + 0.2 * t]

    exact = solve_ivp(derivative, (0, 2), [0.5, -0.4], rtol=1e-12, atol=1e-13).y[:, -1]
    errors = [
        np.abs(np.array(solved(step, {"k": 1.3}, {"x": 0.5, "y": -0.4}, dt, 2)) - exact).max()
        for dt in (0.05, 0.025)
    ]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.25)


@pytest.mark.parametrize("tau", [3.0, 20.0])
@pytest.mark.parametrize("dt", [0.1, 50.0])
def test_the_propagator_is_exact_also_with_equal_time_constants_and_large_steps(
    tau: float, dt: float
) -> None:
    step = read_step(CHAIN)
    assert step.choice.method == "exact"
    A = np.array([[-1, 1, 1], [0, -1, 1], [0, 0, -tau / 3]]) / tau
    start, b = np.array([1.0, 2.0, -3.0]), np.array([0.7 / tau, 0, 0.1])
    rest = -np.linalg.solve(A, b)
    exact = rest + expm(A * 4 * dt) @ (start - rest)
    found = solved(step, {"tau": tau}, {"v": 1.0, "g": 2.0, "h": -3.0}, dt, 4 * dt)
    np.testing.assert_allclose(found, exact, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("scale", [0.0, 1e-8, 0.3, 30.0, 3000.0])
def test_propagators_are_matrix_exponentials(scale: float) -> None:
    A = scale * (np.random.default_rng(0).normal(size=(5, 5)) - 3 * np.eye(5))
    P, Q = propagator(A, 0.1)
    whole = np.zeros((10, 10))
    whole[:5, :5], whole[:5, 5:] = 0.1 * A, 0.1 * np.eye(5)
    exact = expm(whole)
    np.testing.assert_allclose(P, exact[:5, :5], rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(Q, exact[:5, 5:], rtol=1e-10, atol=1e-13)
    assert not np.isfinite(propagator(np.full((1, 1), np.inf), 0.1)[0]).any()


@pytest.mark.parametrize(
    ("equations", "method", "reason"),
    [
        ("dv/dt = (w - 3 * (v - 2)) / tau\ndw/dt = -w / 5", "exact", "constant coefficients"),
        ("dv/dt = (k * (v + w) - v) / tau\nk = tau / 2\ndw/dt = -w", "exact", ""),
        ("dv/dt = I / tau - v if tau > 1 else -v", "exact", ""),
        ("dv/dt = -v / each", "exponential_euler", "own variable"),
        ("dv/dt = -v + sin(t)", "exponential_euler", ""),
        ("dv/dt = g * (3 - v)\ndg/dt = -g", "exponential_euler", ""),
        ("dv/dt = 1 - v ** 2", "rk4", "not linear in v"),
        ("dv/dt = -v + sqrt(2) * xi", "euler_maruyama", "xi"),
        ("dv/dt = -v * xi_1 + xi_2", "euler_maruyama", "xi_1, xi_2"),
    ],
)
def test_the_method_is_chosen_by_the_form_of_the_equations(equations: str, method: str, reason: str) -> None:
    step = read_step(Texts(equations, currents=("I",), parameters=("tau",), units=("each",)))
    assert step.choice.method == method
    assert reason in step.choice.reason


@pytest.mark.parametrize(
    ("equations", "method", "message"),
    [
        ("dv/dt = -v ** 2", "exact", "not linear"),
        ("dv/dt = -v + t", "exact", "depend on time"),
        ("dv/dt = -v / each", "exact", "differ among units"),
        ("dv/dt = -v ** 2", "exponential_euler", "not linear in v"),
        ("dv/dt = -v + w * xi\nw = 2 * v", "rk4", "the noise xi of dv/dt is multiplied by v"),
        ("dv/dt = -v + v * xi", "exact", "multiplied by v"),
        ("dv/dt = -v + each * xi", "exact", "the noise differs among units"),
        ("dv/dt = -v", "euler_maruyama", "no noise"),
        ("dv/dt = -v + xi ** 2", "auto", "not linear in the noise"),
    ],
)
def test_a_method_that_does_not_suit_is_refused(equations: str, method: str, message: str) -> None:
    with pytest.raises(WrongTexts, match=message):
        read_step(Texts(equations, units=("each",), method=method))


@pytest.mark.parametrize(
    ("method", "grown"),
    [
        ("euler", lambda z: 1 + z),
        ("euler_maruyama", lambda z: 1 + z),
        ("heun", lambda z: 1 + z + z**2 / 2),
        ("rk4", lambda z: 1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24),
        ("exponential_euler", math.exp),
    ],
)
def test_additive_noise_is_constant_during_a_step_of_all_methods_but_exact(
    method: str, grown: Callable[[float], float]
) -> None:
    step = read_step(Texts("dx/dt = -k * x + sin(t) + s * xi", parameters=("k", "s"), method=method))
    values, dt, normal, x = {"k": 0.7, "s": 1.3}, 0.9, 0.4, 1.7
    found = {**step.numbers(values, dt, 0.0), "x": x, "x__in": 0.0, "t": 0.0, "A": 0.0}
    ends = []
    for drawn in (0.0, normal):
        lines = {**found, "xi": drawn}
        for line in step.lines:
            lines[line.name] = evaluate(line.value, lines)
        ends.append(lines[step.state["x"]])
    factor = (grown(-0.7 * dt) - 1) / (-0.7 * dt)
    assert ends[1] - ends[0] == pytest.approx(1.3 * factor * math.sqrt(dt) * normal, rel=1e-12)


@pytest.mark.parametrize("resting", [False, True])
def test_the_noise_of_exact_has_the_distribution_of_the_solution(resting: bool) -> None:
    """Against quadrature: the covariance of a step of equations of which one stands still, or none."""
    texts = Texts(
        "dv/dt = (g - v) / 3 + xi : unless refractory\ndg/dt = -g / 5 + 0.5 * xi - 2 * xi_2\n"
        "dw/dt = v + g - w",
        method="exact", spike="v > 1", refractory=True,
    )  # fmt: skip
    step, dt = read_step(texts), 1.7
    assert step.noises == ("xi__v", "xi__g", "xi__w")
    A = np.array([[-1 / 3, 1 / 3, 0], [0, -1 / 5, 0], [1, 1, -1]])
    G = np.array([[1.0, 0], [0.5, -2], [0, 0]])
    if resting:
        A[0], G[0] = 0, 0
    times, weights = np.polynomial.legendre.leggauss(30)
    parts = [expm(A * (1 + t) * dt / 2) @ G for t in times]
    exact = sum(w * dt / 2 * one @ one.T for w, one in zip(weights, parts, strict=True))
    numbers, letter = step.numbers({}, dt, 5.0), "M" if resting else "N"
    names = step.system.variables
    N = np.array([[numbers.get(f"{letter}__{a}__{b}", 0.0) for b in names] for a in names])
    if resting:  # v stands still, and its factors are not read
        N[0] = 0
    np.testing.assert_allclose(N @ N.T, exact, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dt", [1e-6, 0.1, 50.0, 1e4])
def test_noise_of_any_step_has_a_factor(dt: float) -> None:
    A, G = np.array([[-0.2, 0.2], [0.0, -1.0]]), np.array([[0.0], [1.5]])
    found = covariance(A, G, dt)
    L = factor(found)
    np.testing.assert_allclose(L @ L.T, found, rtol=1e-13, atol=0)
    assert (np.triu(L, 1) == 0).all()
    stationary = solve_continuous_lyapunov(A, -G @ G.T)
    if dt > 10:
        np.testing.assert_allclose(found, stationary, rtol=1e-4 if dt < 100 else 1e-12)


def test_equations_that_double_in_each_line_are_no_trap() -> None:
    lines = ["dv/dt = a30", "a0 = v + k"] + [f"a{n + 1} = a{n} * (1 + k * k) + a{n}" for n in range(30)]
    step = read_step(Texts("\n".join(lines), units=("k",)))
    assert len(step.lines) < 200


@pytest.mark.parametrize("function", ["sign", "exprel", "floor"])
def test_the_source_of_nested_functions_does_not_double_with_each(function: str) -> None:
    step = read_step(Texts("dv/dt = " + f"{function}(" * 40 + "v" + ")" * 40))
    assert len(row_source(step, ["dt"], ["v"], ["v__in"], [])) < 40_000


@pytest.mark.parametrize(
    ("method", "equations", "limit"),
    [
        ("euler", "dv/dt = -v / 5", 10.0),
        ("heun", "dv/dt = -v / 5", 10.0),
        ("rk4", "dv/dt = -v / 5", 5 * 2.785293563405282),
        ("euler", "dx/dt = y - x / 10\ndy/dt = -x - y / 10", 0.2 / 1.01),
        ("exact", "dv/dt = -v / 5", None),
        ("rk4", "dv/dt = -v ** 3", None),
    ],
)
def test_the_stability_limit_of_linear_systems_is_known(
    method: str, equations: str, limit: float | None
) -> None:
    step = read_step(Texts(equations, method=method))
    found = stability_limit(step.choice.method, step.system, {}, 0.1)
    assert found == (None if limit is None else pytest.approx(limit, rel=1e-9))
    if limit is not None:
        start = dict.fromkeys(step.system.variables, 1.0)
        below, above = (
            max(map(abs, solved(step, {}, start, by * limit, 2000 * by * limit))) for by in (0.98, 1.02)
        )
        assert below < 1 < above
