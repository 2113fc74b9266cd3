"""The original's one-layer network in plain loops, float64, written from its rules and not from our code.

`W` is `[nf, p, p, c]`, or `[ky, kx, nf, p, p, c]` over the extended grid of V1 where weights are not shared.
Every array of the result has one entry for each step from 0 (norms and time scales: from 1).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

HUGE = 3e38


def run(p: dict[str, Any], weights: np.ndarray, shown: np.ndarray) -> dict[str, np.ndarray]:
    batch, steps, display = p["nbatch"], p["nsteps"], round(p["D"] / p["dt"]) or 10**9
    ny, nx, s = p["ny"], p["nx"], p["stride"]
    ratio = s * s * p["nfin"] / p["nfeat"] if p["normalizeFromPostPerspective"] else 1.0
    p = {**p, "strength": p["strength"] * ratio}
    w = np.array(weights, float)
    w = normalized(p, w) if p["normalizeOnInitialize"] else w
    v = np.full((batch, ny // s, nx // s, p["nfeat"]), 0.0 if p["initV"] == "ZeroV" else p["valueV"])
    a = transfer(p, v)
    err, recon = np.zeros((batch, ny, nx, p["nfin"])), np.zeros((batch, ny, nx, p["nfin"]))
    pull, prev, waiting = np.zeros_like(v), np.zeros_like(w), np.zeros_like(w)
    rate, counter, updates = p["dWMax"], 0, 0
    control = [[p["knee"]["baseMin"], p["knee"]["baseMax"], -1.0] for _ in range(batch)]
    energy = np.zeros(batch)
    out: dict[str, list[Any]] = {}

    def keep(**values: Any) -> None:
        for name, value in values.items():
            out.setdefault(name, []).append(np.array(value))

    keep(V1_V=v, V1_A=a, InputError=err, InputRecon=recon, W=w, prev_dW=prev)
    for t in range(1, steps + 1):
        new = (t - 1) % display == 0
        image = shown[min((t - 1) // display, len(shown) - 1)]
        if p["adaptive"]:
            for b in range(batch):
                control[b] = scaled(p, *control[b], -1.0 if new else float(energy[b]))
        err = p["err_scale"] * image - recon
        drive = project(p, w, err)
        asked = p["triggerLayerName"] == "Input" and p["triggerBehavior"] == "updateOnlyOnTrigger"
        stands = asked and (t - 1 + round(p["triggerOffset"] / p["dt"])) % display != 0
        for b in range(0 if stands else batch):
            delta = control[b][0] if p["adaptive"] else p["dt"]
            tau = p["tau"] / p["dt"]
            if p["v1type"] == "ISTALayer":
                v[b] += delta / tau * (drive[b] - p["VThresh"] * np.sign(a[b]))
                continue
            e = float(np.float32(math.exp(-delta / tau)))
            rest = float(np.float32(1) - np.float32(e))
            now = rest * (drive[b] + (a[b] if p["selfInteract"] else 0))
            v[b] = e * v[b] + now
            if p["v1type"] == "MomentumLCALayer":
                v[b] += p["LCAMomentumRate"] * pull[b]
                pull[b] = now
        a = transfer(p, v)
        recon = synthesize(p, w, a)
        if p["plastic"] and (t - 1 + round(p["trigOffset"] / p["dt"])) % display == 0:
            product, counts = hebbian(p, a, err)
            dw = rate * product
            if p["normalizeDw"] and p["shared"]:
                dw = np.where(counts > 0, dw / np.maximum(counts, 1), 0)
            if not p["immediate"]:
                dw, waiting = waiting, dw
            if p["conntype"] == "MomentumConn":
                f = p["tauConn"]
                if p["method"] == "viscosity":
                    f = math.exp(-1 / f) if f else 0.0
                decay = p["decay"] * (rate if p["method"] == "alex" else 1)
                dw = (1 if p["useMomentumTau"] else 1 - f) * dw + f * prev - decay * w
                prev = dw
            w = normalized(p, w + dw) if p["normalizeOnWeightUpdate"] else w + dw
            updates += 1
            if p["dWMaxDecayInterval"] > 0:
                counter -= 1
                if counter < 0:
                    counter = p["dWMaxDecayInterval"]
                    rate *= 1 - p["dWMaxDecayFactor"]
        squares = (err**2).sum((1, 2, 3))
        value, coefficient = price(p, a)
        energy = 0.5 * squares + coefficient * value
        keep(V1_V=v, V1_A=a, InputError=err, InputRecon=recon, W=w, prev_dW=prev)
        keep(energy=energy, err_sumsq=squares, sparsity_cost=value)
        keep(l1=np.abs(a).sum((1, 2, 3)), l0=(a != 0).sum((1, 2, 3)))
        keep(timescale=[c[0] for c in control], timescale_max=[c[1] for c in control])
    return {name: np.stack(values) for name, values in out.items()}


def transfer(p: dict[str, Any], v: np.ndarray) -> np.ndarray:
    low, shift, width = p["VThresh"], p["AShift"], p["VWidth"]
    if width < 0:
        low, width = low + width, -width
    a = np.where(v < low, p["AMin"], v - shift)
    if width > 0:
        line = p["AMin"] + (low + width - shift - p["AMin"]) * (v - low) / width
        a = np.where((v >= low) & (v < low + width), line, a)
    return np.minimum(a, HUGE if p["AMax"] == "infinity" else p["AMax"])


def price(p: dict[str, Any], a: np.ndarray) -> tuple[np.ndarray, float]:
    t, corner, size = p["VThresh"] + min(p["VWidth"], 0), p["VThresh"] + max(p["VWidth"], 0), np.abs(a)
    if p["l1"] == "L1NormLCAProbe":
        return size.sum((1, 2, 3)), t
    if p["l1"] == "L0NormLCAProbe":
        return (size > t).sum((1, 2, 3)).astype(float), t * t / 2
    assert p["l1"] == "FirmThresholdCostFnLCAProbe"
    return np.where(size < corner, size * (1 - size / (2 * corner)), corner / 2).sum((1, 2, 3)), t


def scaled(p: dict[str, Any], scale: float, most: float, before: float, energy: float) -> list[float]:
    k, kind = p["knee"], p["adaptType"]
    if energy == before:
        return [scale, most, before]
    slope = (before - energy) / scale
    if slope < 0 or before <= 0 or energy <= 0 or (kind == "LogTimeScaleProbe" and slope <= 0):
        return [k["baseMin"], k["baseMax"], energy]
    scale = k["tauFactor"] * before / slope
    if scale >= most:
        scale, growth = most, k["growthFactor"]
        if kind == "LogTimeScaleProbe":
            length = -(k["logThresh"] - k["baseMax"]) / math.log(k["logSlope"])
            growth *= math.exp(-(most - k["baseMax"]) / length)
        old, most = most, most * (1 + growth)
        if kind == "KneeTimeScaleProbe" and most > k["kneeThresh"]:
            most = old + (most - old) * k["kneeSlope"]
            scale = min(scale, most)
    return [scale, most, energy]


def units(p: dict[str, Any], beyond: bool) -> Any:
    """Return each unit of V1's grid, with its halo if `beyond`: its place, the unit it shows, its patch."""
    return _units(p["ny"], p["nx"], p["stride"], p["patch"], beyond)


@cache
def _units(ny: int, nx: int, s: int, size: int, beyond: bool) -> Any:
    found = []
    my, mx = ny // s, nx // s
    halo = (size // s) // 2 if beyond else 0
    for y in range(-halo, my + halo):
        for x in range(-halo, mx + halo):
            show = (folded(y, my), folded(x, mx))
            rows = s * y - (size - s) // 2 + np.arange(size)
            columns = s * x - (size - s) // 2 + np.arange(size)
            found.append(((y, x), show, rows, columns))
    return found


def folded(i: Any, n: int) -> Any:
    """Return the unit whose mirror image `i` is; the edge unit comes twice."""
    i = np.where(np.asarray(i) < 0, -1 - np.asarray(i), i)
    return np.where(i >= n, 2 * n - 1 - i, i)


def patch_of(p: dict[str, Any], w: np.ndarray, place: tuple[int, int]) -> np.ndarray:
    if p["shared"]:
        return w
    halo = (w.shape[0] - p["ny"] // p["stride"]) // 2
    return w[place[0] + halo, place[1] + halo]


def inside(p: dict[str, Any], rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return ((rows >= 0) & (rows < p["ny"]))[:, None] & ((columns >= 0) & (columns < p["nx"]))[None]


def project(p: dict[str, Any], w: np.ndarray, err: np.ndarray) -> np.ndarray:
    out = np.zeros((p["nbatch"], p["ny"] // p["stride"], p["nx"] // p["stride"], p["nfeat"]))
    for place, _, rows, columns in units(p, False):
        seen = err[:, folded(rows, p["ny"])][:, :, folded(columns, p["nx"])]
        if not p["err_mirror"]:
            seen = seen * inside(p, rows, columns)[None, :, :, None]
        out[:, place[0], place[1]] = np.einsum("byxc,fyxc->bf", seen, patch_of(p, w, place))
    return out


def synthesize(p: dict[str, Any], w: np.ndarray, a: np.ndarray) -> np.ndarray:
    out = np.zeros((p["nbatch"], p["ny"], p["nx"], p["nfin"]))
    for place, show, rows, columns in units(p, p["v1_mirror"]):
        patch = np.einsum("bf,fyxc->byxc", a[:, show[0], show[1]], patch_of(p, w, place))
        i, j = np.nonzero(inside(p, rows, columns))
        out[:, rows[i], columns[j]] += patch[:, i, j]
    return out


def hebbian(p: dict[str, Any], a: np.ndarray, err: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of activity times error and the number of active units, like the weights."""
    size, grid = p["patch"], (p["ny"] // p["stride"], p["nx"] // p["stride"])
    halo = (size // p["stride"]) // 2
    shape = (grid[0] + 2 * halo, grid[1] + 2 * halo, p["nfeat"], size, size, p["nfin"])
    product, counts = np.zeros(shape), np.zeros(shape)
    for place, show, rows, columns in units(p, p["v1_mirror"]):
        on = inside(p, rows, columns)[None, :, :, None]
        seen = on * err[:, folded(rows, p["ny"])][:, :, folded(columns, p["nx"])]
        active = a[:, show[0], show[1]]
        at = (place[0] + halo, place[1] + halo)
        product[at] += np.einsum("bf,byxc->fyxc", active, seen)
        counts[at] += (active != 0).sum(0)[:, None, None, None] * on
    return (product.sum((0, 1)), counts.sum((0, 1))) if p["shared"] else (product, counts)


def normalized(p: dict[str, Any], w: np.ndarray) -> np.ndarray:
    w = w.copy()
    for patch in w.reshape(-1, *w.shape[-3:]):
        if p["normMethod"] == "normalizeL2":
            patch *= p["strength"] / math.sqrt((patch**2).sum())
        elif p["normMethod"] == "normalizeSum":
            patch *= p["strength"] / patch.sum()
        elif p["normMethod"] == "normalizeMax" and patch.max() > 0:
            patch *= p["strength"] / patch.max()
        elif p["normMethod"] == "normalizeContrastZeroMean":
            patch[...] = (patch - patch.mean()) / (patch.std() / p["strength"])
    return w


def run_deep(p: dict[str, Any], weights: dict[str, np.ndarray], shown: np.ndarray) -> dict[str, np.ndarray]:
    """Two layers: V1 codes the image, V2 codes V1, and what V2 leaves unexplained inhibits V1."""
    rough = {"v1_mirror": False, "err_mirror": False, "shared": True, "nbatch": p["nbatch"]}
    rough |= {"normMethod": "normalizeL2", "strength": 1.0, "AMin": 0.0, "AMax": "infinity", "VWidth": 0.0}
    one = {**rough, **p["V1"], "nx": p["nx"], "ny": p["ny"], "nfin": p["nfin"], "nfeat": p["V1"]["nf"]}
    s = one["stride"]
    two = {**rough, **p["V2"], "nx": p["nx"] // s, "ny": p["ny"] // s}
    two |= {"nfin": one["nfeat"], "nfeat": p["V2"]["nf"]}
    w1, w2 = normalized(one, weights["V1"].astype(float)), normalized(two, weights["V2"].astype(float))
    r = two["stride"]
    v1 = np.full((p["nbatch"], two["ny"], two["nx"], two["nfin"]), one["VThresh"])
    v2 = np.full((p["nbatch"], two["ny"] // r, two["nx"] // r, two["nfeat"]), two["VThresh"])
    a1, a2 = transfer(one, v1), transfer(two, v2)
    recon1, recon0 = np.zeros_like(v1), np.zeros((p["nbatch"], p["ny"], p["nx"], p["nfin"]))
    err1, err0 = np.zeros_like(recon1), np.zeros_like(recon0)
    out: dict[str, list[np.ndarray]] = {}
    for t in range(p["nsteps"] + 1):
        if t:
            err0 = shown[min((t - 1) // p["D"], len(shown) - 1)] - recon0
            v1 = leaked(one, v1, project(one, w1, err0) - err1, a1)
            a1 = transfer(one, v1)
            err1 = a1 - recon1
            v2 = leaked(two, v2, project(two, w2, err1), a2)
            a2 = transfer(two, v2)
            recon0, recon1 = synthesize(one, w1, a1), synthesize(two, w2, a2)
        now = {"V1_V": v1, "V1_A": a1, "V2_V": v2, "V2_A": a2, "V1Error": err1, "V1Recon": recon1}
        for name, values in {**now, "InputError": err0, "InputRecon": recon0}.items():
            out.setdefault(name, []).append(values)
    return {name: np.stack(values) for name, values in out.items()}


def leaked(p: dict[str, Any], v: np.ndarray, drive: np.ndarray, a: np.ndarray) -> np.ndarray:
    e = np.float32(math.exp(-1 / p["tau"]))
    return float(e) * v + float(np.float32(1) - e) * (drive + a)


def forward(p: dict[str, Any], weights: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Every unit of the mirrored image adds its patch to the layer above, cut at the edge."""
    s, size = p["stride"], p["nxp"]
    my, mx = p["ny"] // s, p["nx"] // s
    out = np.zeros((p["nbatch"], my, mx, p["nf"]))
    halo = (size - 1) * s // 2
    for y in range(-halo, p["ny"] + halo):
        for x in range(-halo, p["nx"] + halo):
            pixel = image[:, folded(y, p["ny"]), folded(x, p["nx"])]
            patch = np.einsum("bc,cyxf->byxf", pixel, weights[y % s, x % s])
            y0, x0 = (math.floor((i - (s / 2) * (size - 1)) / s) for i in (y, x))
            for dy in range(size):
                for dx in range(size):
                    if 0 <= y0 + dy < my and 0 <= x0 + dx < mx:
                        out[:, y0 + dy, x0 + dx] += patch[:, dy, dx]
    return out
