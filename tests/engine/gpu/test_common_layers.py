"""Layers that are held once for all slices, on an emulated GPU against the CPU."""

from __future__ import annotations

from typing import Any

import pytest

from petabatch.connections import Conv, Identity
from petabatch.engine.steppers.cuda import CudaStepper
from petabatch.layers import Constant, Input, LeakyIntegrator, Linear
from petabatch.probes import L2, PSNR
from petabatch.sources import ImageArray
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import NEVER
from petabatch.spec.schedule import Every
from petabatch.weights import Gaussian
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.gpu_runs import assert_agree, assert_near, on_gpu, simulate
from support.networks import images, lca_network

pytestmark = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
SHAPE = (8, 8, 3)


def coding(batch: int | None, **run: Any) -> Network:
    """Return a code that learns from one image in three slices, which start apart."""
    data = images(3, shape=SHAPE)
    base = lca_network(data, features=6, display=6, displays=3, record=Every(1, "displays"), **run)
    source = ImageArray(data=data[0], slices="same")
    v1 = base.layers["V1"].model_copy(update={"start": {"V": Gaussian(std=0.3, per_slice=True)}})
    image = Input(shape=SHAPE, source=source, every=NEVER, batch=batch)
    recorded = {**base.output.layers, "image": LayerOutput(every=Every(1, "displays"))}
    output = base.output.model_copy(update={"layers": recorded})
    quality = PSNR(image="image", reconstruction="recon", every=Every(1, "displays"))
    return base.model_copy(
        update={
            "layers": {**base.layers, "V1": v1, "image": image},
            "probes": {**base.probes, "quality": quality, "level": L2(layer="image", every=Every(4))},
            "output": output,
        }
    )


@pytest.mark.parametrize("kernel", ["display", "step", "array"])
def test_kernels_read_one_image_for_all_slices(kernel: str) -> None:
    engine = assert_agree(coding(1), EmulatedGpu(), kernel=kernel)
    assert isinstance(engine.lanes[0].stepper, CudaStepper) == (kernel != "array")
    assert engine.backend.arrays.lane(slice(0, 3))["layers/image/A"].shape == (1, 1, *SHAPE)
    found, each = (simulate(on_gpu(coding(n), kernel=kernel), EmulatedGpu())[1] for n in (1, None))
    assert_near(found, each, 1e-6)


def reading(border: Any, mode: Any, **keys: Any) -> Network:
    """Return units that see one image, one constant and a reset from it through weights of their own."""
    image = images(1, shape=(1, 12, 12, 3))[0] if border == "image" else images(1, shape=SHAPE)[0]
    source = ImageArray(data=image, slices="same", **({"crop": "center"} if border == "image" else {}))
    start = {"V": Gaussian(std=0.3, per_slice=True)}
    layers = {
        "image": Input(shape=SHAPE, source=source, every=NEVER, batch=1, border=border),
        "offset": Constant(shape=(4, 4, 5), value=0.3, batch=1),
        "x": LeakyIntegrator(shape=(4, 4, 5), tau=4.0, start=start, reset=Every(5), reset_to="offset"),
        "y": Linear(shape=SHAPE),
    }
    conv = {"mode": mode, "init": Gaussian(std=0.2)}
    connections = {
        "see": Conv(pre="image", post="x", patch=(2, 2), **conv),
        "spread": Conv(pre="offset", post="y", patch=(4, 4), **conv),
        "copy": Identity(pre="image", post="y"),
        "nowhere": Identity(pre="x", post="offset"),
        "back": Conv(pre="x", post="y", patch=(4, 4), **conv),
    }
    run = Run(batch=3, display=6, steps=12)
    output = Output(layers={name: LayerOutput(every=4) for name in ("x", "y")})
    wanted = Network(run=run, layers=layers, connections=connections, output=output)
    return wanted.model_copy(update=keys)


@pytest.mark.parametrize("mode", ["extra_shared", "shared", "non_shared"])
@pytest.mark.parametrize("slices", [{}, {"layers.x.tau": (2.0, 4.0, 4.0)}], ids=["alike", "apart"])
def test_what_is_held_once_is_read_by_all_slices(mode: str, slices: dict[str, Any]) -> None:
    assert_agree(reading("zero", mode, slices=slices), EmulatedGpu())


@pytest.mark.parametrize("slices", [{}, {"layers.x.tau": (2.0, 4.0, 4.0)}], ids=["alike", "apart"])
def test_its_margin_is_read_once(slices: dict[str, Any]) -> None:
    assert_agree(reading("image", "shared", slices=slices), EmulatedGpu())
