"""The method of a network: the stepper that advances its layers, and the reason for the choice.

`choose` is a pure function of the network and of the device it runs on. `petabatch check` prints what it
returns, the engine executes it, `petabatch bench` measures it. Nothing that can change during a run, as load
or the number of threads and ranks, takes part.

    run.kernel   device    stepper          printed name
    array        CPU, GPU  layers           layer by layer
    dense        CPU       program          compiled program, without lazy evaluation
    lazy         CPU       program          compiled program, with lazy evaluation of its codes that can be
    display      GPU       cuda             CUDA display kernel
    step         GPU       cuda             CUDA step kernel
    auto         CPU       the first that can run the network: program, layers
    auto         GPU       the first that can run the network: the display kernel, the step kernel, layers
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal

from petabatch.errors import Problem, ResourceError
from petabatch.kernels.cuda import source
from petabatch.kernels.cuda.device import Limits
from petabatch.kernels.operations.base import Operation
from petabatch.kernels.rules import RULES
from petabatch.network.gpu_rows import ways
from petabatch.network.graph import Graph
from petabatch.network.lazy_codes import lazy_codes
from petabatch.network.loop import Loop, find_loop
from petabatch.network.operations import Program
from petabatch.network.program import find_program
from petabatch.network.readers import measured_layers
from petabatch.network.stages import row_tiles, side_by_side
from petabatch.network.together import group_size, slices_together
from petabatch.spec.compiled import NotSuitable

StepperName = Literal["layers", "program", "cuda"]


@dataclass(frozen=True)
class Method:
    """Which stepper advances what, and why."""

    stepper: StepperName
    layers: tuple[str, ...]
    """The layers that it advances."""
    reason: str
    """Why it is this one, one clause."""
    slow: bool = False
    """A compiled loop would have been faster, and layers one by one were not asked for."""
    compiled_operators: bool = True
    """Layers one by one use compiled patch operators, not those of plain array code."""
    kernel: source.CudaKernel = "step"
    """Of the stepper `cuda`."""
    found: Loop | Program | None = None
    unfollowed: Mapping[str, str] = field(default_factory=dict)
    """The layers of compiled steps whose time scale is adapted between the steps, and why."""
    together: int = 1
    """Slices that a program advances in one call at most."""
    alone: str = ""
    """Why it is one."""
    rows: Mapping[str, str] = field(default_factory=dict)
    """On a GPU, the layers with a row function, each with why it is not translated, empty where it is."""
    concurrent: tuple[tuple[str, ...], ...] = ()
    """Operations of a program that threads make side by side where there are more than slices."""

    def group_size(self, slices: int, threads: int) -> int:
        """Return how many of a rank's slices are advanced in one call."""
        return group_size(slices, self.together, threads)

    @property
    def loop(self) -> Loop:
        """The sparse-coding loop that the stepper runs; raises ValueError for layers one by one."""
        if not isinstance(self.found, Loop):
            raise ValueError(f"the stepper {self.stepper} has no sparse-coding loop")
        return self.found

    @property
    def program(self) -> Program:
        """The program that the stepper runs; raises ValueError for other steppers."""
        if not isinstance(self.found, Program):
            raise ValueError(f"the stepper {self.stepper} has no program")
        return self.found

    @property
    def decision(self) -> tuple[str, ...]:
        """The stepper, the layers that it evaluates lazily, and by which drives."""
        lazily = self.found.lazy if isinstance(self.found, Program) else ()
        codes = ((one.layer, *(drive.key for drive in one.drives)) for one in lazily)
        return (self.stepper, *chain.from_iterable(codes))

    @property
    def by_layers(self) -> bool:
        """Say whether layers are advanced one by one."""
        return self.stepper == "layers"

    def __str__(self) -> str:
        alone = [f"slice by slice, because {self.alone}"] if self.alone else []
        several = [f"up to {self.together} slices in one call"] if self.together > 1 else []
        return "; ".join([self.brief, *several, *alone, *self.side_by_side])

    @property
    def brief(self) -> str:
        """A sentence for `petabatch check`: what advances the layers, and why."""
        if self.by_layers:
            expect = "; expect several times the time of compiled steps" if self.slow else ""
            text = f"layer by layer, because {self.reason}{expect}"
            kernels = ", ".join(name for name, why in self.rows.items() if not why)
            text += f"; by a kernel of its row function: {kernels}" if kernels else ""
            for name, why in self.rows.items():
                text += f"; {name} by its `update` for arrays, because {why}" if why else ""
            return text
        names: dict[str, str] = {
            "program": "compiled program",
            "cuda": f"CUDA {self.kernel} kernel",
        }
        text = f"{names[self.stepper]}: {', '.join(self.layers)}, because {self.reason}"
        if self.stepper == "program":
            lazily = [one.layer for one in self.program.lazy]
            text += f"; lazily evaluated: {', '.join(lazily)}" if lazily else ""
            for code, reason in self.program.codes.items():
                text += f"; all units of {code} are computed, because {reason}" if reason else ""
            for layer, reason in self.program.interpreted.items():
                text += f"; {layer} is interpreted step by step, because {reason}"
        for layer, reason in self.unfollowed.items():
            text += f"; the time scale of {layer} is adapted in the interpreter, because {reason}"
        return text

    @property
    def side_by_side(self) -> Iterator[str]:
        """What of compiled steps threads make side by side, and what ranks exchange."""
        if self.stepper != "program":
            return
        for labels in self.concurrent:
            yield f"on threads beyond one for each slice, side by side: {', '.join(labels)}"
        # Their keys without the padding and the lookback.
        keys = (one.label.partition(" ")[2].removeprefix("layers/") for one in self.program.joined)
        found = (re.match(r"(sums of )?[^\s\[,]+", key.replace("/", ".")) for key in keys)
        if joined := dict.fromkeys(match[0] for match in found if match):
            yield f"exchanged between ranks: {', '.join(joined)}"


def choose(graph: Graph, limits: Limits | None = None) -> Method:
    """Return the method of a network; `limits` are those of the GPU, None where it is not known yet.

    Raises ResourceError when `run.kernel` names a kernel that the network cannot have on this GPU.
    """
    run = graph.network.run
    moving = tuple(name for level in graph.order for name in level if not graph.network.layers[name].static)
    compiled = run.device == "cpu" and run.kernel != "array"
    try:
        _check_run(graph)
        if run.device == "gpu":
            return _on_gpu(graph, find_loop(graph), limits)
        return _program(graph, moving)
    except NotSuitable as reason:
        if run.kernel in ("display", "step") and limits is not None:
            raise ResourceError(
                f'run.kernel = "{run.kernel}" cannot run this network on this GPU: {reason}\n'
                f"    expected: what fits {limits.shared_block} bytes of shared memory, and the registers\n"
                '    hint:     run.kernel = "auto" or "array"'
            ) from None
        asked = run.kernel == "array" or run.precision != "float32" or graph.network.parallel.parts > 1
        rows = ways(graph) if run.device == "gpu" else {}
        return Method("layers", moving, str(reason), not asked, compiled, rows=rows)


def of_part(whole: Method, part: Graph) -> Method:
    """Return the method of one rank's part of a network: that of the whole, for the shapes of the part.

    What depends on sizes is decided for the whole, so that all ranks keep the same arrays.
    """
    if whole.stepper != "program":
        return whole
    program = find_program(part, measured_layers(part), whole.program.codes)
    return replace(whole, found=program, concurrent=())


def check_kernel(graph: Graph) -> list[Problem]:
    """A kernel that is asked for by name must be able to run the network; on a GPU, on a roomy one."""
    kernel = graph.network.run.kernel
    if kernel in ("auto", "array"):
        return []
    method = choose(graph)
    if method.stepper == "cuda" and kernel == method.kernel:
        return []
    if method.stepper == "program" and (kernel == "dense" or (kernel == "lazy" and method.program.lazy)):
        return []
    needed = "one sparse-coding loop in float32"
    if kernel in ("dense", "lazy"):
        needed = "layers with compiled rules"
    if kernel == "lazy":
        needed += ", in float32, and a code of type lca driven by patches, updated in every step, "
        needed += "threshold > 0, minimum = 0, without vertices"
    elif kernel != "dense":
        needed += " with shared weights"
    message = f"this kernel cannot run this network: {method.reason}"
    return [Problem("run.kernel", message, kernel, needed, '"auto" takes the fastest kernel that can run it')]


def _check_run(graph: Graph) -> None:
    """Raise NotSuitable where the run itself asks for layers one by one."""
    run = graph.network.run
    if run.kernel == "array":
        raise NotSuitable('run.kernel is "array"')
    if run.device == "gpu" and run.precision != "float32":
        raise NotSuitable(f"run.precision is {run.precision}, and CUDA kernels are float32")
    if run.device == "gpu" and graph.network.parallel.parts > 1:
        raise NotSuitable(f"{graph.network.parallel.split} shares slices between ranks")


def _program(graph: Graph, moving: tuple[str, ...]) -> Method:
    """Return the method of a network on the CPU."""
    program = find_program(graph, measured_layers(graph), lazy_codes(graph))
    alone = set(moving) <= program.interpreted.keys()
    if alone and not (moving and graph.network.run.kernel == "auto"):
        reasons = "; ".join(f"{name}: {why}" for name, why in program.interpreted.items())
        raise NotSuitable(reasons or "nothing changes from step to step")
    together, single = 1, ""
    try:
        together = slices_together(graph, program)
    except NotSuitable as why:
        single = str(why)
    slow = bool(program.interpreted)
    concurrent = tuple(tuple(map(_shared, ones)) for ones in side_by_side(graph, program))
    return Method(
        "program",
        moving,
        "most layers have compiled steps" if slow else "all layers have compiled steps",
        slow,
        found=program,
        together=together,
        alone=single,
        concurrent=concurrent,
        unfollowed=_unfollowed(graph),
    )


def _shared(one: Operation) -> str:
    tiles = row_tiles(one)
    return f"{one.label} in {tiles} row tiles" if tiles > 1 else one.label


def _unfollowed(graph: Graph) -> dict[str, str]:
    """Return the layers whose time scale follows an energy that compiled steps do not sum up, and why."""
    found, layers, split = {}, graph.network.layers, graph.network.parallel.split
    for name, layer in layers.items():
        if layer.controller is not None and split:
            found[name] = f"the energy is a sum over ranks, with {split}"
        elif layer.controller is not None:
            energy = layer.controller.energy
            try:
                graph.network.probes[energy].norms(layers)
            except NotSuitable as reason:
                found[name] = f"of {energy}: {reason}"
    return found


def _on_gpu(graph: Graph, loop: Loop, limits: Limits | None) -> Method:
    run, patches = graph.network.run, loop.patches
    if not patches.shared:
        raise NotSuitable(
            "CUDA kernels have one dictionary for all units, and each unit has weights of its own"
        )
    if any(axis.size > axis.fine for axis in (patches.y, patches.x)):
        raise NotSuitable("CUDA kernels have no patches larger than their layer")
    if loop.rule.name not in RULES:
        raise NotSuitable(f"the rule {loop.rule.name} has no CUDA kernel")
    known, display = limits or source.ROOMY, None
    if run.kernel == "step":
        why = 'run.kernel is "step"'
    elif RULES[loop.rule.name] not in source.DISPLAY_RULES:
        why = f"layers of type {graph.network.layers[loop.code].type} have no display kernel"
    elif run.kernel == "auto" and run.tf32:
        why = "TF32 is for the step kernel"
    else:
        why = "a slice does not fit the display kernel"
        display = source.display(patches, known)
    if display is not None:
        memory = f"{display.shared / 1024:.0f} KiB of shared memory"
        why = f"a slice fits {memory}"
        if limits is None:
            why = f"a slice needs {memory}"
            why += " (a GPU with less runs the step kernel)" if run.kernel == "auto" else ""
        return Method("cuda", loop.layers, why, kernel="display", found=loop)
    if run.kernel == "display":
        raise NotSuitable(why)
    if source.step(patches) is None:
        raise NotSuitable("a slice has more numbers than CUDA kernels can count")
    return Method("cuda", loop.layers, why, kernel="step", found=loop)
