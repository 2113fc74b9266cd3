"""Ways to share slices among ranks: all that `build` takes, with the reasons for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from petabatch import params
from petabatch.bench.prediction.ways import ways

TWO_LAYER = Path(__file__).parents[3] / "params" / "two_layer.toml"
ODD = "layers.V2.shape=[8, 8, 129]"


@pytest.mark.parametrize(
    ("batch", "ranks", "expected"),
    [
        (1, 6, [(3, 2)]),  # 128 features of V1 are whole; 3 do not divide any rows
        (2, 6, [(3, 1), (3, 2)]),
        (3, 6, [(2, 1), (3, 1), (1, 2), (3, 2)]),
        (1, 4, [(4, 1), (1, 4), (2, 2)]),
        (1, 16, [(16, 1), (1, 16), (2, 8), (4, 4), (8, 2)]),
    ],
)
def test_groups_of_ranks_have_slices(batch: int, ranks: int, expected: list[tuple[int, int]]) -> None:
    network = params.read(TWO_LAYER, (f"run.batch={batch}", ODD)).network
    found, _ = ways(network, ranks)
    assert [(part.network.parallel.features, part.network.parallel.rows) for part in found] == expected


def test_why_all_ranks_cannot_share_slices_is_said() -> None:
    network = params.read(TWO_LAYER, ("run.batch=1",)).network
    found, refused = ways(network, 5)
    assert found == []
    assert "over ranks: V1: 128 features cannot be split into 5 parts; V2: " in refused["features"]
    assert "image, error, recon: 32 rows cannot be split into 5 tiles of one height" in refused["rows"]
