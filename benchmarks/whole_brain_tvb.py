"""The points of `whole_brain.py` by tvb-library, in an environment of its own: see there.

python benchmarks/whole_brain_tvb.py EDGES.npz POINTS.npz RESULT.npz
"""

from __future__ import annotations

import sys
import time

import numpy as np
from tvb.simulator.lab import connectivity, coupling, integrators, models, monitors, simulator


def main() -> None:
    """Simulate points one after the other; keep the processor time and the last state of each."""
    edges, points = np.load(sys.argv[1]), np.load(sys.argv[2])
    nodes, steps, dt = (points[name].item() for name in ("nodes", "steps", "dt"))
    weights, tracts = np.zeros((nodes, nodes)), np.zeros((nodes, nodes))
    weights[edges["col"], edges["row"]], tracts[edges["col"], edges["row"]] = edges["data"], edges["delay"]
    network = connectivity.Connectivity(
        weights=weights, tract_lengths=tracts, speed=np.array([1.0]), centres=np.zeros((nodes, 3)),
        region_labels=np.array([f"node {n}" for n in range(nodes)]),
    )  # fmt: skip
    ends, seconds = [], []
    for strength, drive in zip(points["strength"], points["drive"], strict=True):
        sim = simulator.Simulator(
            model=models.WilsonCowan(P=np.array([drive]), Q=np.array([0.0])),
            connectivity=network,
            coupling=coupling.Linear(a=np.array([strength])),
            integrator=integrators.EulerDeterministic(dt=dt),
            monitors=(monitors.SubSample(period=steps * dt),),
            initial_conditions=np.zeros((1, 2, nodes, 1)),
            simulation_length=steps * dt,
        ).configure()
        begin = time.process_time()
        ((_, found),) = sim.run()
        seconds.append(time.process_time() - begin)
        ends.append(found[-1, 0, :, 0])
    np.savez(sys.argv[3], seconds=seconds, ends=ends)


if __name__ == "__main__":
    main()
