"""Speed of whole networks on a GPU, layer by layer, against PyTorch: two layers of code, recurrent units."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
from gpu_speed import in_turns, rates_of
from small_networks import TAU, recurrent
from two_layers import LEARN, PARAMS

import petabatch
from petabatch.engine.gpu.device import Gpu
from petabatch.spec.load import load
from petabatch.spec.network import Network

TWO_LAYERS, RECURRENT = 50, 200
"""Steps at a time."""
FOREVER = 10**7
"""Steps of the one display."""
Work = Callable[[], object]


def on_gpu(network: Network, **run: Any) -> Network:
    """Return a network on the GPU, whose only display does not end."""
    wanted = {"device": "gpu", "steps": None, "display": FOREVER, "displays": 1, **run}
    return network.model_copy(update={"run": network.run.model_copy(update=wanted)})


def ours(network: Network, steps: int, held: ExitStack) -> dict[str, Work]:
    """Return what makes steps: with CUDA graphs, with TF32 factors, and launch by launch."""
    works: dict[str, Work] = {}
    for way, tf32 in (("array", False), ("array TF32", True)):
        sim = held.enter_context(petabatch.Simulator(on_gpu(network, tf32=tf32)))
        works[way] = lambda sim=sim: sim.step(steps)
    alone = held.enter_context(petabatch.Simulator(on_gpu(network)))

    def one_by_one() -> None:
        with patch.object(Gpu, "capture", lambda device, work: work):  # graphs are made as they are needed
            alone.step(steps)

    works["array, no graph"] = one_by_one
    return works


def captured(
    step: Callable[[], None], steps: int, held: object, after: Callable[[], None] = lambda: None
) -> Work:
    """Return the replay of `steps` steps of PyTorch, followed by `after`, as one CUDA graph.

    A graph knows addresses alone: `held` are the tensors there, or what has them.
    """
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(3):
            step()
        after()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(steps):
                step()
            after()
    torch.cuda.synchronize()

    def replay(held: object = held) -> None:
        graph.replay()

    return replay


def by_torch(make: Callable[[bool], Work]) -> dict[str, Work]:
    """Return the loops of PyTorch that work here; `make` gets whether torch.compile makes the step."""
    import torch
    from gpu_speed import TORCH

    works: dict[str, Work] = {}
    for way, tf32, compiled in TORCH:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = True
        try:
            works[way] = make(compiled)
        except Exception as error:
            print(f"{way}: left out, {type(error).__name__}: {str(error).splitlines()[0]}")
    return works


def two_layers(device: Gpu, torch: bool, slices: int) -> dict[str, dict[str, Any]]:
    """Return the speed of the two-layer network."""
    network = load(PARAMS, [f"run.batch={slices}"]).network
    with ExitStack() as held:
        works = ours(network, TWO_LAYERS, held)
        if torch:
            with petabatch.Simulator(network.model_copy(update={"run": on_gpu(network).run})) as sim:
                images = np.asarray(sim["image"]["A"])
                first, second = (np.asarray(sim[name]["weights"])[0, 0, 0] for name in LEARN)
            works |= by_torch(lambda compiled: _two_layers(network, images, (first, second), compiled))
        device.enter()
        return rates_of(in_turns(device, works), slices * TWO_LAYERS)


def _two_layers(network: Network, images: np.ndarray, weights: Any, compiled: bool) -> Work:
    from torch_two_layers import TwoLayers

    codes: list[Any] = [network.layers["V1"], network.layers["V2"]]
    thresholds = codes[0].threshold, codes[1].threshold
    loop = TwoLayers("conv2d, channels last", images, weights, thresholds, codes[0].tau, compiled).to("cuda")
    first = {name: getattr(loop, name) for name in ("recon", "recon1", "error1")}

    def after() -> None:  # a step replaces these tensors, and the next replay begins with the first ones
        for name, tensor in first.items():
            tensor.copy_(getattr(loop, name))
            setattr(loop, name, tensor)

    return captured(loop.step, TWO_LAYERS, loop, after)


def recurrent_units(device: Gpu, torch: bool, slices: int, units: int = 256) -> dict[str, dict[str, Any]]:
    """Return the speed of recurrent units with weights that all slices share."""
    network = recurrent(units, slices=slices)
    with ExitStack() as held:
        works = ours(network, RECURRENT, held)
        if torch:
            works |= by_torch(lambda compiled: _recurrent(slices, units, compiled))
        device.enter()
        return rates_of(in_turns(device, works), slices * RECURRENT)


def _recurrent(slices: int, units: int, compiled: bool) -> Work:
    import torch

    rng = np.random.default_rng(1)
    weights = torch.from_numpy(rng.normal(0, 0.1 / units**0.5, (units, units)).astype("f4")).cuda()
    given = torch.from_numpy(rng.normal(0, 0.1, (slices, units)).astype("f4")).cuda()
    x, e = torch.zeros_like(given), float(np.exp(-1 / TAU))

    def step() -> None:
        x.copy_(torch.addmm(given, 0.5 + 0.5 * torch.tanh(x), weights) + e * x)

    return captured(torch.compile(step) if compiled else step, RECURRENT, (weights, given, x))
