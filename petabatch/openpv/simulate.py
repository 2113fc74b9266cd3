"""In-memory simulation of PetaVision networks, with results under PetaVision's names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from petabatch import in_memory as memory
from petabatch.spec.network import LayerOutput, Network, Output
from petabatch.spec.schedule import Every

_PROBED = {
    "energy": "probes/energy/total",
    "err_sumsq": "probes/err_sumsq/squares",
    "sparsity_cost": "probes/sparsity_cost/sparsity",
    "l1": "probes/l1/sum",
    "l0": "probes/l0/active",
    "timescale": "layers/V1/time_scale",
    "timescale_max": "layers/V1/time_scale_max",
    "timescale_true": "layers/V1/energy_before",
}


def simulate(net: Network, at: Sequence[int], threads: int | None = None) -> dict[str, np.ndarray]:
    """Run a network from `network` in memory; return its arrays under PetaVision's names.

    At each step in `at` (0 is the initial state): `V1_V`, `V1_A`, `InputError` and so on
    `[len(at), nbatch, y, x, f]`; weights `W` (`W1`, `W2`) and, with momentum, `prev_dW`
    `[len(at), nf, py, px, c]` or `[len(at), ky, kx, nf, py, px, c]`. At every step from 1, `[steps, nbatch]`:
    `energy`, `err_sumsq`, `sparsity_cost`, `l1`, `l0`, and with adaptive time scale `timescale`, its ceiling
    `timescale_max` and the energy it follows, `timescale_true`.

    The run ends after `nsteps` or at the last step in `at`, whichever is later.
    """
    run = net.run.model_copy(update={"steps": max(net.run.length, *at, 0)})
    net = net.model_copy(update={"run": run})
    if "V1" in net.layers and net.layers["V1"].controller is not None:
        scales = LayerOutput(every=Every(1), variables=("time_scale", "time_scale_max", "energy_before"))
        net = net.model_copy(update={"output": Output(layers={"V1": scales})})
    done = memory.run(net, at, threads)
    found: dict[str, np.ndarray] = {}
    for name, layer in net.layers.items():
        coded = any(variable.name == "V" for variable in layer.variables())
        found[f"{name}_A" if coded else name] = done.states[f"layers/{name}/A"]
        if coded:
            found[f"{name}_V"] = done.states[f"layers/{name}/V"]
    owned = [name for name, connection in net.connections.items() if connection.owner is not None]
    for number, name in enumerate(owned, start=1):
        suffix = str(number) if len(owned) > 1 else ""
        for array, key in (("W", "weights"), ("prev_dW", "momentum")):
            values = done.states.get(f"connections/{name}/{key}")
            if values is not None:
                values = values[:, 0]
                found[array + suffix] = values[:, 0, 0] if values.shape[1:3] == (1, 1) else values
    for name, path in _PROBED.items():
        if path in done.recorded:
            found[name] = done.recorded[path]
    return found
