"""Conductance-based spiking neurons, compiled; `layers/conductance_lif.py` has the equations."""

from __future__ import annotations

import math
from typing import Any

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.operations import Spike

METHOD, DT, TAU, REST, THRESHOLD, RECOVERY, FATIGUE, AFTER, LARGEST, REVERSAL, DECAY = *range(10), 12
"""Numbers of a `Spike`: the method (0: arma, 1: Heun's, 2: arma with tau_e of inh_b at the end); the
parameters of the layer, RECOVERY and DECAY as factors in a step; LARGEST limits conductances. REVERSAL and
DECAY are three each, of exc, inh and inh_b."""


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
def _pull(n: Any, e: float, i: float, b: float, gap: float, through: float) -> tuple[float, float]:
    """Return (tau_inf, V_inf) for three conductances, and the potentials `gap` that gap junctions add up."""
    total = 1 + e + i + b + through
    pulled = n[REST] + e * n[REVERSAL] + i * n[REVERSAL + 1] + b * n[REVERSAL + 2] + gap
    return n[TAU] / total, pulled / total


@operation(Spike)
def _spike(op: Any) -> None:
    """Integrate one step and emit spikes; in float64, since f1 amplifies the rounding of tau_e / tau_s.

    `gap` and `through`, the inputs of gap junctions, are empty where there are none.
    """
    n, exc, inh, inh_b, gap, through = op.numbers, op.exc, op.inh, op.inh_b, op.gap, op.through
    V, Vth, A, E, I, B = op.potential, op.threshold, op.out, op.of_exc, op.of_inh, op.of_inh_b  # noqa: E741
    dt, largest = n[DT], n[LARGEST]
    for u in range(A.size):
        e0, i0, b0 = E[u] + float(exc[u]), I[u] + float(inh[u]), B[u] + float(inh_b[u])
        e, i, b = min(e0, largest), min(i0, largest), min(b0, largest)
        e1, i1, b1 = e * n[DECAY], i * n[DECAY + 1], b * n[DECAY + 2]
        beside = float(gap[u]) if gap.size > 0 else 0.0
        g = float(through[u]) if through.size > 0 else 0.0
        tau_e, v_e = _pull(n, e1, i1, b1, beside, g)
        if n[METHOD] == 1:
            tau_s, v_s = _pull(n, e, i, b, beside, g)
            v = _heun(float(V[u]), tau_s, v_s, tau_e, v_e, dt)
        else:
            tau_s, v_s = _pull(n, e0, i0, b0, beside, g)
            if n[METHOD] == 0:
                tau_e = n[TAU] / (1 + e1 + i1 + b + g)
            v = _arma(float(V[u]), tau_s, v_s, tau_e, v_e, dt)
        threshold = n[THRESHOLD] + (Vth[u] - n[THRESHOLD]) * n[RECOVERY]
        # Compared as they are kept, like the layer's own update does.
        V[u], Vth[u] = v, threshold
        fires = V[u] > Vth[u]
        A[u] = fires
        if fires:
            V[u] = n[REST]
            Vth[u] = threshold + n[FATIGUE]
            b1 += n[AFTER]
        E[u], I[u], B[u] = e1, i1, b1
