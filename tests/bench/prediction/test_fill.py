"""How many slices fill a GPU."""

from __future__ import annotations

from pathlib import Path

from petabatch import params
from petabatch.bench.prediction.fill import H100, slices_to_fill
from petabatch.kernels.cuda.device import Limits
from petabatch.network.method import choose

PARAMS = Path(__file__).parents[3] / "params"


def fill(*overrides: str, limits: Limits = H100) -> int:
    read = params.read(PARAMS / "natural_images.toml", ["run.device=gpu", *overrides])
    return slices_to_fill(choose(params.plan(read).graph, limits), limits)


def test_the_display_kernel_has_a_block_for_each_slice() -> None:
    assert fill() % H100.multiprocessors == 0


def test_products_of_the_step_kernel_are_divided_into_tiles() -> None:
    assert fill("run.kernel=step") == 132 // 2  # 16 x 16 positions by 128 features are two of 128 x 128
    few = Limits(2, H100.shared, H100.shared_block)
    assert fill("run.kernel=step", limits=few) == 1


def test_layers_one_by_one_are_not_ours() -> None:
    assert fill("run.kernel=array") == 1
