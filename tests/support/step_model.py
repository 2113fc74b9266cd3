"""The original's rules of a step in plain loops, float64, written from its rules and not from our code.

A layer sees the activity of this step of layers in lower phases, else of the step before, each later by the
delay; before step 0 there was no activity. Weights change at the end of a step, by the activity of the pre
layer, as delayed, and of the error layer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from petabatch.connections import Background, Clone, Conv, Largest, Pool, Transpose
from petabatch.layers import LCA, Constant, LeakyIntegrator, Linear, MomentumLCA, Product, Rectified, Squared
from petabatch.spec.network import Network

STEPS, DISPLAY, BATCH, DT = 7, 3, 2, 0.5
History = dict[str, list[np.ndarray]]


def patches(conv: Conv, pre: np.ndarray, post: tuple[int, int, int], border: Any) -> Iterator[Any]:
    """Yield for each pre unit, also beyond the edge, activity `[b, f]`, kernel, and where weights lead."""
    (ny, nx), size = pre.shape[1:3], conv.patch[0]
    more, fewer = max(1, post[0] // ny), max(1, ny // post[0])
    reach = size * fewer

    def start(i: int) -> int:
        return (
            math.floor((i - fewer / 2 * (size - 1)) / fewer) if fewer > 1 else i * more - (size - more) // 2
        )

    for y in range(-reach, ny + reach):
        for x in range(-reach, nx + reach):
            if 0 <= y < ny and 0 <= x < nx:
                a = pre[:, y, x]
            elif border == "mirror":
                a = pre[:, folded(y, ny), folded(x, nx)]
            else:
                a = np.full((len(pre), pre.shape[3]), 0.0 if border == "zero" else border)
            ways = [(i, j, start(y) + i, start(x) + j) for i in range(size) for j in range(size)]
            inside = [way for way in ways if 0 <= way[2] < post[0] and 0 <= way[3] < post[1]]
            yield (y, x), a, (y % fewer, x % fewer), inside


def delivered(conv: Conv, weights: np.ndarray, pre: np.ndarray, post: Any, border: Any) -> np.ndarray:
    out = np.zeros((len(pre), *post))
    for _, a, kernel, ways in patches(conv, pre, post, border):
        for i, j, y, x in ways:
            out[:, y, x] += a @ weights[kernel][:, i, j]
    return out


def transposed(conv: Conv, weights: np.ndarray, pre: np.ndarray, post: Any) -> np.ndarray:
    """Each post unit gathers the activity that its patch leads to."""
    out = np.zeros((len(pre), *post))
    for (row, column), _, kernel, ways in patches(conv, out, pre.shape[1:], "zero"):
        if 0 <= row < post[0] and 0 <= column < post[1]:
            for i, j, y, x in ways:
                out[:, row, column] += pre[:, y, x] @ weights[kernel][:, i, j].T
    return out


def pooled(pool: Pool, pre: np.ndarray, post: tuple[int, int, int], border: Any) -> np.ndarray:
    """Each unit of the smaller layer has a window of the larger one, centred on its block."""
    (ny, nx), (rows, columns) = pre.shape[1:3], post[:2]
    gathers = ny >= rows and nx >= columns
    stride = max(ny, rows) // min(ny, rows), max(nx, columns) // min(nx, columns)
    window = pool.window or stride
    reach = max(window)
    seen: dict[tuple[int, int], list[np.ndarray]] = {(y, x): [] for y in range(rows) for x in range(columns)}
    coarse = (rows, columns) if gathers else (ny, nx)
    beyond = 0 if gathers else reach
    for cy in range(-beyond, coarse[0] + beyond):
        for cx in range(-beyond, coarse[1] + beyond):
            for dy in range(window[0]):
                for dx in range(window[1]):
                    fy = cy * stride[0] - (window[0] - stride[0]) // 2 + dy
                    fx = cx * stride[1] - (window[1] - stride[1]) // 2 + dx
                    source, target = ((fy, fx), (cy, cx)) if gathers else ((cy, cx), (fy, fx))
                    if target not in seen:
                        continue
                    if 0 <= source[0] < ny and 0 <= source[1] < nx:
                        seen[target].append(pre[:, source[0], source[1]])
                    elif border == "mirror":
                        seen[target].append(pre[:, folded(source[0], ny), folded(source[1], nx)])
                    elif border != "zero":
                        seen[target].append(np.full((len(pre), pre.shape[3]), border))
    out = np.zeros((len(pre), *post))
    size = window[0] * window[1] / (1 if gathers else stride[0] * stride[1])
    for (y, x), values in seen.items():
        if values:
            total = np.max(values, 0) if pool.method == "max" else np.sum(values, 0)
            out[:, y, x] = total / size if pool.method == "average" else total
    return out


def compared(connection: Largest | Background, pre: np.ndarray) -> np.ndarray:
    """The largest feature of each position, or all features behind one that is 1 where they are 0."""
    batch, ny, nx, nf = pre.shape
    copies = 0 if isinstance(connection, Largest) else connection.copies
    out = np.zeros((batch, ny, nx, copies * (nf + 1) if copies else 1))
    for place in np.ndindex(batch, ny, nx):
        features = list(pre[place])
        background = [0.0 if any(features) else 1.0]
        out[place] = np.repeat(background + features, copies) if copies else max(features)
    return out


def products(conv: Conv, w: np.ndarray, pre: np.ndarray, error: np.ndarray, border: Any) -> list[np.ndarray]:
    """Return the summed product of activities, and how many pre units were active, behind each weight."""
    product, counts = np.zeros_like(w), np.zeros_like(w)
    for _, a, kernel, ways in patches(conv, pre, error.shape[1:], border):
        for i, j, y, x in ways:
            product[kernel][:, i, j] += a.T @ error[:, y, x]
            counts[kernel][:, i, j] += (a != 0).sum(0)[:, None]
    return [product, counts]


def updated(conv: Conv, w: dict[str, np.ndarray], fresh: np.ndarray) -> None:
    """Change the weights: the change before in its place if delayed, momentum, decay, then the length."""
    rule: Any = conv.learn
    if rule.delayed:
        fresh, w["waiting"] = w["waiting"], fresh
    w["before"] = (1 - rule.momentum) * fresh + rule.momentum * w["before"] - rule.decay * w["now"]
    w["now"] = normalised(w["now"] + w["before"])


def normalised(weights: np.ndarray) -> np.ndarray:
    return 0.5 * weights / np.sqrt((weights**2).sum((-3, -2, -1), keepdims=True))


def folded(i: int, n: int) -> int:
    i %= 2 * n
    return i if i < n else 2 * n - 1 - i


def simulated(network: Network, data: np.ndarray) -> History:
    layers = network.layers
    convs = {name: c for name, c in network.connections.items() if isinstance(c, Conv)}
    weights: Any = {}
    for name, conv in convs.items():
        given: Any = conv.init
        zeros = np.zeros_like(given.data)
        weights[name] = {"now": normalised(given.data), "before": zeros, "waiting": zeros}
    e = math.exp(-DT / 3.0)
    found: History = {name: [np.zeros((BATCH, *layer.shape))] for name, layer in layers.items()}
    found["image"][0] = data[:, 0].astype(float)
    potential: dict[str, np.ndarray] = {}
    pull = {name: np.zeros((BATCH, *layer.shape)) for name, layer in layers.items()}
    for name, layer in layers.items():
        if isinstance(layer, Constant):
            found[name][0] += 0.6
        if isinstance(layer, LCA):
            potential[name] = np.full((BATCH, *layer.shape), layer.initial)
            found[name][0] = activity(layer, potential[name])
    for t in range(1, STEPS + 1):
        now = {"image": data[:, ((t - 1) // DISPLAY) % 3].astype(float)}
        for name in sorted(layers, key=lambda n: layers[n].phase or 0):
            layer = layers[name]
            if name == "image":
                continue
            gathered = {"exc": np.zeros((BATCH, *layer.shape)), "inh": np.zeros((BATCH, *layer.shape))}
            for via, c in network.connections.items():
                if c.post != name:
                    continue
                seen = t - c.delay_steps - (0 if layers[c.pre].phase < layer.phase else 1)  # type: ignore[operator]
                if seen < 0:
                    pre = np.zeros((BATCH, *layers[c.pre].shape))
                else:
                    pre = now[c.pre] if seen == t else found[c.pre][seen]
                if isinstance(c, Conv):
                    pre = delivered(c, weights[via]["now"], pre, layer.shape, layers[c.pre].border)
                if isinstance(c, Clone):
                    pre = delivered(convs[c.of], weights[c.of]["now"], pre, layer.shape, "zero")
                if isinstance(c, Pool):
                    pre = pooled(c, pre, layer.shape, layers[c.pre].border)
                if isinstance(c, Largest | Background):
                    pre = compared(c, pre)
                if isinstance(c, Transpose):
                    pre = transposed(convs[c.of], weights[c.of]["now"], pre, layer.shape)
                gathered[c.channel] += c.strength * pre
            g = gathered["exc"] - gathered["inh"]
            before = found[name][t - 1]
            period = DISPLAY if layer.every.unit == "displays" else layer.every.count
            if (t - 1 - layer.offset) % period != 0:
                now[name] = before
                continue
            match layer:
                case MomentumLCA():
                    drive = (1 - e) * (g + before)
                    potential[name] = e * potential[name] + drive + layer.rate * pull[name]
                    pull[name], a = drive, activity(layer, potential[name])
                case LCA():
                    potential[name] = e * potential[name] + (1 - e) * g
                    a = activity(layer, potential[name])
                case Linear():
                    a = 0.7 * g
                case Rectified():
                    a = np.minimum(np.maximum(g - 0.1, 0), 0.8)
                case LeakyIntegrator():
                    a = math.exp(-DT / 2.0) * before + g
                case Product():
                    a = gathered["exc"] * gathered["inh"]
                case Squared():
                    a = g * g
                case _:
                    a = before
            now[name] = a
        for name in layers:
            found[name].append(now[name])
        for name, c in convs.items():
            if c.learn is not None and (t - c.learn.offset) % c.learn.every.count == 0:
                rule: Any = c.learn
                teachers: list[Any] = [(c, rule.error or c.post)]
                teachers += [
                    (via, via.error)
                    for via in network.connections.values()
                    if isinstance(via, Clone) and via.of == name and via.error is not None
                ]
                product, counts = 0.0, 0.0
                for via, error in teachers:
                    past = found[via.pre]
                    pre = past[t - via.delay_steps] if t >= via.delay_steps else np.zeros_like(past[0])
                    more = products(c, weights[name]["now"], pre, now[error], layers[via.pre].border)
                    product, counts = product + more[0], counts + more[1]
                change = rule.rate * (product if rule.average == "sum" else product / np.maximum(counts, 1))
                updated(c, weights[name], change)
            found.setdefault(f"weights of {name}", []).append(weights[name]["now"])
    return found


def activity(layer: LCA, v: np.ndarray) -> np.ndarray:
    if layer.transfer == "soft":
        return np.maximum(v - 0.2, 0)
    return np.where(v < 0.2, 0, np.where(v < 0.5, 0.5 * (v - 0.2) / 0.3, v))
