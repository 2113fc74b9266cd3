"""Conductance-based spiking neurons, compiled; `layers/conductance_lif.py` has the equations."""

from __future__ import annotations

import math
from typing import Any

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.operations.updates import Spike


@njit(nogil=True, error_model="numpy")
def _arma(v: float, tau_s: float, v_s: float, tau_e: float, v_e: float, dt: float) -> float:
    k = (tau_e - tau_s) / dt
    f1 = math.exp(-dt / tau_s) if k == 0 else (tau_e / tau_s) ** (-1 / k)
    f2 = (1 - tau_s / dt * (1 - f1)) / (1 + k)
    return f1 * v + f2 * v_s + (1 - f1 - f2) * v_e


@njit(nogil=True, error_model="numpy")
def _heun(v: float, tau_s: float, v_s: float, tau_e: float, v_e: float, dt: float) -> float:
    first = (v_s - v) / tau_s
    second = (v_e - (v + dt * first)) / tau_e
    return v + dt / 2 * (first + second)


@njit(nogil=True, error_model="numpy")
def _pull(op: Any, e: float, i: float, b: float, gap: float, through: float) -> tuple[float, float]:
    """Return (tau_inf, V_inf) for three conductances, and the potentials `gap` that gap junctions add up."""
    total = 1 + e + i + b + through
    pulled = op.rest + e * op.reversal[0] + i * op.reversal[1] + b * op.reversal[2] + gap
    return op.tau / total, pulled / total


@operation(Spike)
def _spike(op: Any) -> None:
    """Integrate one step and emit spikes; in float64, since f1 amplifies the rounding of tau_e / tau_s.

    `gap` and `through`, the inputs of gap junctions, are empty where there are none.
    """
    exc, inh, inh_b, gap, through = op.exc, op.inh, op.inh_b, op.gap, op.through
    V, Vth, A, E, I, B = op.potential, op.threshold, op.out, op.of_exc, op.of_inh, op.of_inh_b  # noqa: E741
    dt, largest, decay = op.dt, op.largest, op.decay
    for u in range(A.size):
        e0, i0, b0 = E[u] + float(exc[u]), I[u] + float(inh[u]), B[u] + float(inh_b[u])
        e, i, b = min(e0, largest), min(i0, largest), min(b0, largest)
        e1, i1, b1 = e * decay[0], i * decay[1], b * decay[2]
        beside = float(gap[u]) if gap.size > 0 else 0.0
        g = float(through[u]) if through.size > 0 else 0.0
        tau_e, v_e = _pull(op, e1, i1, b1, beside, g)
        if op.method == 1:
            tau_s, v_s = _pull(op, e, i, b, beside, g)
            v = _heun(float(V[u]), tau_s, v_s, tau_e, v_e, dt)
        else:
            tau_s, v_s = _pull(op, e0, i0, b0, beside, g)
            if op.method == 0:
                tau_e = op.tau / (1 + e1 + i1 + b + g)
            v = _arma(float(V[u]), tau_s, v_s, tau_e, v_e, dt)
        threshold = op.base + (Vth[u] - op.base) * op.recovery
        # Compared as they are kept, like the layer's own update does.
        V[u], Vth[u] = v, threshold
        fires = V[u] > Vth[u]
        A[u] = fires
        if fires:
            V[u] = op.rest
            Vth[u] = threshold + op.fatigue
            b1 += op.after
        E[u], I[u], B[u] = e1, i1, b1
