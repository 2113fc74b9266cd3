"""A model of the steps of layers of equations in NumPy, from `docs/equations.md`, as `expressions.py`."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.linalg import expm

from support.random_equations.expressions import (
    FUNCTIONS,
    NUMBER,
    TIME,
    UNIT,
    ZERO,
    Expressions,
    Value,
    expression,
    number,
)

Now = Mapping[str, Value]


class Step(Expressions):
    """A step of a layer from a given state."""

    def __init__(self, *about: Any, variant: int = 0) -> None:
        """`variant` is which of two equal formulas exponential Euler is computed by."""
        super().__init__(*about)
        self.variant, self.dt = variant, self.fixed["dt"]
        self.resting = Value(self.given.left > 1, UNIT)

    def __call__(self) -> dict[str, np.ndarray]:
        """Return the variables, "A", and "refractory" after the step."""
        given, layer = self.given, self.layer
        fired, left, pauses = given.before != 0, given.left, layer.refractory is not None
        now: dict[str, Value] = {}
        for name, one in given.state.items():
            arrived = self.op(np.add, self.unit(one), self.unit(given.arrived[name]))
            blocked = (fired | (left > 0)) & (name in layer.paused and pauses)
            now[name] = self.op(np.where, Value(blocked, UNIT), self.unit(one), arrived)
        time = Value(np.float64(given.t), TIME)
        for statement in filter(str.strip, re.split("[;\n]", layer.reset or "")):
            found = re.match(r"\s*(\w+)\s*([-+*/]?)=(.*)", statement)
            assert found is not None
            target, sign, right = found.groups()
            whole = expression(f"{target} {sign} ({right})" if sign else right)
            new = self.value(whole, {**now, "t": self.op(np.subtract, time, self.dt)})
            now[target] = self.op(np.where, Value(fired, UNIT), new, now[target])
        now["t"] = time
        now |= getattr(self, f"_{layer.method}")(now)
        ends = {name: now[name].array.astype(self.real) for name in layer.rates}
        if layer.spike is None:
            seen = expression(layer.activity or next(iter(layer.rates)))
            return {**ends, "A": np.asarray(self.value(seen, now).array).astype(self.real)}
        spikes = np.broadcast_to(self.value(expression(layer.spike), now).array, left.shape)
        if layer.refractory is None:
            return {**ends, "A": spikes.astype(float)}
        steps = np.floor((layer.refractory + 1e-3 * given.dt) / given.dt)
        resting = self.resting.array
        spikes = spikes & ~resting
        rest = np.where(spikes, steps, np.where(resting, left - 1, 0))
        return {**ends, "A": spikes.astype(float), "refractory": rest}

    def _paused(self, name: str, value: Value, still: Value) -> Value:
        """Return a value, in refractory units that of a variable that stands still."""
        pauses = name in self.layer.paused and self.layer.refractory is not None
        return self.op(np.where, self.resting, still, value) if pauses else value

    def _rates(self, now: Now) -> dict[str, Value]:
        rates = self.layer.rates.items()
        return {name: self._paused(name, self.value(rate, now), number(0)) for name, rate in rates}

    def _held(self, now: Now) -> dict[str, Value]:
        """Return a moment with noise that is constant during the step."""
        root = self.op(np.sqrt, self.dt, called=True)
        return {**now, **{n: self.op(np.divide, self.fixed[n], root) for n in self.given.noise}}

    def _along(self, now: Now, rates: Now, by: Value) -> dict[str, Value]:
        return {
            **now,
            **{n: self.op(np.add, now[n], self.op(np.multiply, by, one)) for n, one in rates.items()},
        }

    def _euler(self, now: Now) -> Now:
        now = self._held(now)
        return self._ends(self._along(now, self._rates(now), self.dt))

    def _ends(self, now: Now) -> Now:
        return {name: now[name] for name in self.layer.rates}

    def _mean(self, *given: tuple[float, Now]) -> dict[str, Value]:
        """Return sums of rates with weights."""
        found = {}
        for name in self.layer.rates:
            terms = [self.op(np.multiply, number(weight), rates[name]) for weight, rates in given]
            total = terms[0]
            for one in terms[1:]:
                total = self.op(np.add, total, one)
            found[name] = total
        return found

    def _heun(self, now: Now) -> Now:
        now = self._held(now)
        first = self._rates(now)
        later = {**self._along(now, first, self.dt), "t": self.op(np.add, now["t"], self.dt)}
        return self._ends(self._along(now, self._mean((0.5, first), (0.5, self._rates(later))), self.dt))

    def _rk4(self, now: Now) -> Now:
        now = self._held(now)
        half = self.op(np.multiply, number(0.5), self.dt)
        rates = [self._rates(now)]
        for by in (half, half, self.dt):
            later = {**self._along(now, rates[-1], by), "t": self.op(np.add, now["t"], by)}
            rates.append(self._rates(later))
        whole = self._mean(*zip((1 / 6, 1 / 3, 1 / 3, 1 / 6), rates, strict=True))
        return self._ends(self._along(now, whole, self.dt))

    def _exponential_euler(self, now: Now) -> Now:
        now, found = self._held(now), {}
        for name, rate in self.layer.rates.items():
            by, rest = self.linear(rate, [name], now)
            a, x = by.get(name, number(0)), now[name]
            z = self.op(np.multiply, a, self.dt)
            gain = self.op(np.multiply, self.dt, self.op(FUNCTIONS["exprel"], z, called=True))
            if self.variant:
                kept = self.op(np.multiply, self.op(np.exp, z, called=True), x)
                new = self.op(np.add, kept, self.op(np.multiply, gain, rest))
            else:
                slope = self.op(np.add, self.op(np.multiply, a, x), rest)
                new = self.op(np.add, x, self.op(np.multiply, slope, gain))
            found[name] = self._paused(name, new, x)
        return found

    def _euler_maruyama(self, now: Now) -> Now:
        root, found = self.op(np.sqrt, self.dt, called=True), {}
        for name, rate in self.layer.rates.items():
            by, drift = self.linear(rate, list(self.given.noise), now)
            new = self.op(np.add, now[name], self.op(np.multiply, self.dt, drift))
            for noise, factor in by.items():
                shaken = self.op(np.multiply, factor, self.fixed[noise])
                new = self.op(np.add, new, self.op(np.multiply, root, shaken))
            found[name] = self._paused(name, new, now[name])
        return found

    def _exact(self, now: Now) -> Now:
        """Return the solution; noise has a covariance of full rank, or none."""
        names = list(self.layer.rates)
        noises = sorted(self.noises)
        forms = {name: self.linear(self.layer.rates[name], [*names, *noises], now) for name in names}
        slices = len(self.given.left)
        whole = np.zeros((slices, len(names), len(names) + len(noises)))
        for row, name in enumerate(names):
            for column, other in enumerate((*names, *noises)):
                whole[:, row, column] = np.ravel(
                    np.broadcast_to(forms[name][0].get(other, number(0)).array, (slices, 1))
                )
        pauses = self.layer.refractory is not None and self.layer.paused
        active = self._propagated(now, names, forms, whole)
        if not pauses:
            return active
        still = [names.index(name) for name in self.layer.paused]
        whole = whole.copy()
        whole[:, still] = 0
        resting = self._propagated(now, names, {**forms, **{n: ({}, ZERO) for n in self.layer.paused}}, whole)
        return {name: self.op(np.where, self.resting, resting[name], active[name]) for name in names}

    def _propagated(
        self, now: Now, names: list[str], forms: Mapping[str, Any], whole: np.ndarray
    ) -> dict[str, Value]:
        n, dt = len(names), float(self.given.dt)
        made = np.zeros((len(whole), n, 3 * n))
        for matrix, into in zip(whole, made, strict=True):
            A, G = matrix[:, :n], matrix[:, n:]
            both = expm(np.block([[A, np.eye(n)], [np.zeros((n, 2 * n))]]) * dt)
            into[:, : 2 * n] = both[:n]
            if G.any():
                loan = expm(np.block([[-A, G @ G.T], [np.zeros((n, n)), A.T]]) * dt)
                covariance = loan[n:, n:].T @ loan[:n, n:]
                some = np.flatnonzero(np.diag(covariance) > 0)
                into[np.ix_(some, 2 * n + some)] = np.linalg.cholesky(covariance[np.ix_(some, some)])
        found = {}
        for row, name in enumerate(names):
            reached = [name]  # also by factors that are 0, of what may be no number
            for one in reached:
                reached += [other for other in forms[one][0] if other in names and other not in reached]
            terms = [(row_of, now[one]) for row_of, one in enumerate(names) if one in reached]
            terms += [(n + at, forms[one][1]) for at, one in enumerate(names) if one in reached]
            terms += [
                (2 * n + at, self.fixed.get(f"xi__{one}", ZERO)) for at, one in enumerate(names[: row + 1])
            ]
            total = self.unit(np.zeros_like(self.given.left))
            for column, value in terms:
                if value is not ZERO:
                    term = self.op(np.multiply, Value(made[:, row, column, None], NUMBER), value)
                    total = self.op(np.add, total, term)
            found[name] = total
        return found

    @property
    def noises(self) -> set[str]:
        """The names of white noise in the equations."""
        nodes = [node for rate in self.layer.rates.values() for node in ast.walk(rate)]
        return {one.id for one in nodes if isinstance(one, ast.Name) and re.fullmatch(r"xi(_\w+)?", one.id)}
