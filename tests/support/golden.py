"""The golden cases: states computed by PetaVision on real images, in full or compact."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.spec.network import Network
from support import petavision_network as openpv

COMPACT = Path(__file__).parents[1] / "petavision" / "golden"


def folder() -> Path:
    """Return the full cases (PETABATCH_GOLDEN, or shared/golden beside the checkout) or else the compact."""
    given = os.environ.get("PETABATCH_GOLDEN")
    full = Path(given) if given else Path(__file__).parents[3] / "shared" / "golden"
    return full if given or full.is_dir() else COMPACT


@dataclass(frozen=True)
class Case:
    name: str

    @cached_property
    def about(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((folder() / self.name / "case.json").read_text())
        return found

    @property
    def params(self) -> dict[str, Any]:
        found: dict[str, Any] = self.about["params"]
        return found

    @cached_property
    def data(self) -> dict[str, np.ndarray]:
        with np.load(folder() / self.name / "data.npz") as file:
            found = dict(file)
        for array, owner in self.about.get("same", {}).items():  # a compact case, stored with another one
            with np.load(folder() / owner / "data.npz") as file:
                found[array] = file[array]
        return found

    @property
    def weights(self) -> Any:
        if "W1" in self.data:
            return {"V1": self.data["W1"], "V2": self.data["W2"]}
        return self.data["W_file"] if "W_file" in self.data else self.data["W"]

    def network(self, kernel: Any = "array", **params: Any) -> Network:
        return openpv.network(
            {**self.params, **params}, self.weights, input=self.data["input"], kernel=kernel
        )

    def drift(self, name: str) -> float | None:
        """Return the larger of the two drifts of an array, None where none is named."""
        drifts = [self.about[f"max_abs_diff_{of}"] for of in ("other_build", "float64_replica")]
        found = [d if isinstance(d, float) else d.get(name) for d in drifts]
        return max((d for d in found if d is not None), default=None)

    def tolerance(self, name: str) -> float:
        return 2 * (self.drift(name) or 0) or 5e-6


def names() -> list[str]:
    """Return the names of the cases at hand."""
    return sorted(path.parent.name for path in folder().glob("*/case.json"))
