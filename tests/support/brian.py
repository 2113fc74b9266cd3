"""What Brian2 makes of the models of `brian_models.py`, for `tests/layers/test_brian.py`.

    uv venv /tmp/brian && uv pip install -p /tmp/brian brian2 'numpy<2.4'
    /tmp/brian/bin/python tests/support/brian.py tests/data/brian.npz          # of 400 units, some seconds
    /tmp/brian/bin/python tests/support/brian.py /tmp/whole.npz --whole        # of 4,000, for a second
    python tests/support/brian.py /tmp/whole.npz --compare

The last command runs petabatch. It needs no Brian2.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.brian_models import DT, MODELS, NETWORKS, SHORT, WEIGHTS, WHOLE, Model, wiring

SAMPLED = 20
"""Steps between two samples of a trace."""


def in_brian(model: Model) -> dict[str, Any]:
    """Return the arguments of a NeuronGroup; equations are divided by ms."""
    lines = []
    for line in filter(None, (line.strip() for line in model.equations.split("\n"))):
        left, right = (part.strip() for part in line.split("=", 1))
        right, _, flag = (part.strip() for part in right.partition(":"))
        right = re.sub(r"\bt\b", "(t / ms)", right)
        right = f"({right}) / ms" if left.endswith("/dt") else right
        lines.append(f"{left} = {right} : 1{f' ({flag})' if flag else ''}")
    reset = None if model.reset is None else model.reset.replace(";", "\n").replace("\n ", "\n")
    given = {"model": "\n".join(lines), "threshold": model.spike, "reset": reset}
    return {key: value for key, value in given.items() if value is not None}


def simulate(whole: bool) -> dict[str, np.ndarray]:
    """Return traces of units, and the spikes `[2, spikes]` of networks: step and unit."""
    import brian2 as b

    found: dict[str, np.ndarray] = {}
    b.prefs.codegen.target = "cython" if whole else "numpy"
    b.defaultclock.dt = DT * b.ms

    def group(model: Model, units: int, method: str) -> Any:
        pause = {} if model.refractory is None else {"refractory": model.refractory * b.ms}
        return b.NeuronGroup(units, **in_brian(model), **pause, method=method, name="n*")

    for name, model in {} if whole else MODELS.items():
        for method in model.methods:
            units = group(model, 1, method)
            for key, value in model.start.items():
                setattr(units, key, value)
            seen = b.StateMonitor(
                units, list(units.equations.diff_eq_names), record=True, when="after_thresholds"
            )
            b.Network(units, seen).run(model.steps * DT * b.ms)
            traces = [getattr(seen, key)[0] for key in sorted(units.equations.diff_eq_names)]
            found[f"{name} {method}"] = np.array(traces)[:, SAMPLED - 1 :: SAMPLED]
    size, steps = (4000, 10_000) if whole else (400, 1000)
    for name in WHOLE if whole else SHORT:
        model = NETWORKS[name]
        wired = wiring(name, size)
        for method in model.methods:
            units = group(model, size, method)
            for key, values in wired.start.items():
                setattr(units, key, values)
            parts = [units]
            for target, weight, pairs in zip(
                ("ge", "gi"), WEIGHTS[name], (wired.excitatory, wired.inhibitory), strict=True
            ):
                synapses = b.Synapses(units, units, on_pre=f"{target} += {weight}")
                synapses.connect(i=pairs[0], j=pairs[1])
                parts.append(synapses)
            spikes = b.SpikeMonitor(units)
            began = time.time()
            b.Network(*parts, spikes).run(steps * DT * b.ms)
            found[f"{name} {method}"] = np.array(
                [np.round(np.asarray(spikes.t / b.ms) / DT) + 1, np.asarray(spikes.i)], np.int16
            )
            print(f"{name} {method}: {len(spikes.i):,} spikes, {time.time() - began:.0f} s", flush=True)
    return found


def compare(file: str) -> int:
    """Print how many spikes of petabatch and Brian2 are the same; return how many are not."""
    from support.brian_runs import spikes

    different = 0
    with np.load(file) as given:
        for name, theirs in given.items():
            mine = set(zip(*spikes(*name.split(), 4000, 10_000).tolist(), strict=True))
            other = set(zip(*theirs.tolist(), strict=True))
            different += len(mine ^ other)
            print(f"{name}: {len(mine):,} and {len(other):,}, {len(mine & other):,} the same", flush=True)
    return different


if __name__ == "__main__":
    if "--compare" in sys.argv:
        sys.exit(bool(compare(sys.argv[1])))
    np.savez_compressed(sys.argv[1], **simulate("--whole" in sys.argv))  # type: ignore[arg-type]
