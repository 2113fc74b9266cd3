"""Draw the energy over a display with an annealed threshold, beside that with a constant one."""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt

import petabatch
from petabatch import plotting

*directories, output = sys.argv[1:]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for directory, label in zip(directories, ("annealed, 2 to 0.55", "constant, 0.55"), strict=True):
    with petabatch.open(directory) as run:
        for axes, name in ((left, "probes/energy/total"), (right, "probes/active/fraction")):
            series = run[name]
            axes.plot(series.steps, series[...].mean(axis=1), label=label)
            axes.set(xlabel="step", ylabel=name.removeprefix("probes/").replace("/", " "))
        energy, active = (run[name][-1].mean() for name in ("probes/energy/total", "probes/active/fraction"))
        print(f"{label}: energy {energy:.2f}, active {active:.2%}")
left.set_yscale("log")
left.legend()
plotting.finish(figure, output)
