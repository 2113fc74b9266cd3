"""Which kernels make the steps of a network, in words."""

from __future__ import annotations

from petabatch.engine.steppers.bind import numbers
from petabatch.kernels.cuda import source
from petabatch.kernels.cuda.device import Limits
from petabatch.kernels.cuda.loop import has_display
from petabatch.network.features import split_layers
from petabatch.network.graph import Graph
from petabatch.network.lazy import lazy_loop
from petabatch.network.loop import find_loop

_ROOMY = Limits(1, 2**40, 2**40)
"""A GPU with as much shared memory as may be asked for."""


def kernels(graph: Graph) -> str:
    """Return which kernels `run.kernel` and `run.device` come to."""
    run = graph.network.run
    compiled = run.kernel != "array" and run.precision == "float32" and not split_layers(graph.network)
    loop = find_loop(graph) if compiled else None
    if loop is None or (run.device == "gpu" and not loop.shared):
        return "layer by layer"
    if run.device == "cpu":
        return f"{'lazy' if lazy_loop(graph) else 'dense'}, of the loop of {loop.code}"
    link = graph.wirings[loop.dictionary].link
    assert link is not None
    assert run.kernel == "auto" or run.kernel == "display" or run.kernel == "step"
    rule = numbers(graph.network.layers[loop.code]).rule
    cut = source.display(link.patches, _ROOMY) if has_display(rule, run.kernel, run.tf32) else None
    if cut is None:
        return f"step{' with TF32' if run.tf32 else ''}, of the loop of {loop.code}"
    needs = f"where a block may have {cut.shared / 1024:.0f} KiB of shared memory"
    return f"display {needs}{', else step' if run.kernel == 'auto' else ''}, of the loop of {loop.code}"
