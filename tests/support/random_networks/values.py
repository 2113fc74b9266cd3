"""The values that random networks give to keys, and the keys that they leave at their defaults.

Flags and choices take all their values. Keys whose values depend on the rest of the network, as names of
layers, are those of `drawing.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from petabatch.spec.model import Model
from petabatch.spec.schedule import DISPLAY, NEVER, STEP, Every
from support.random_networks.words import literals, named

VALUES: Mapping[str, Sequence[Any]] = {
    "Adaptive.bounds": ((-0.5, 0.6),), "Adaptive.std": (0.2,), "Adaptive.rise": (1,),
    "Adaptive.tau": (4.0, 2.0),
    "Adam.beta1": (0.5,), "Adam.beta2": (0.9,), "Adam.epsilon": (0.01,), "Adam.rate": (0.05,),
    "Averaging.rate": (0.1, 0.3),
    "Bins.high": (0.7,), "Bins.low": (-0.5,), "Bins.outside": (-0.5,), "Bins.width": (0.5,),
    "ConductanceLIF.after": (0.3,), "ConductanceLIF.decay": ((2.0, 4.0, 6.0),),
    "ConductanceLIF.fatigue": (2.0,), "ConductanceLIF.noise": ((2.0, 0.5, 0.5),),
    "ConductanceLIF.noise_rate": ((500.0, 400.0, 300.0),), "ConductanceLIF.recovery": (5.0,),
    "ConductanceLIF.rest": (-69.0,), "ConductanceLIF.reversal": ((5.0, -74.0, -88.0),),
    "ConductanceLIF.tau": (4.0,), "ConductanceLIF.threshold": (-68.0,),
    "Connection.delay_steps": (1, 3), "Connection.strength": (0.7, -0.4),
    "Constant.value": (0.6, -0.3),
    "ContrastZeroMean.strength": (0.2,),
    "Conv.decorrelate": (0.1,),
    "Cost.above": (0.1,), "Cost.coefficient": (0.5,),
    "Dropout.probability": (0.3, 0.7),
    "Energy.above": (0.1,),
    "FISTA.step": (0.1,), "FISTA.threshold": (0.1, 0.05),
    "FirmCost.corner": (0.4,),
    "GaussianNoise.std": (0.2,), "GaussianNoise.mean": (0.3,),
    "HeavyBall.beta": (0.5,),
    "Hebbian.clip": (0.002,), "Hebbian.decay": (0.1,), "Hebbian.momentum": (0.5,),
    "Input.every": (Every(2), Every(3), Every(2, "displays"), STEP, NEVER),
    "KneeTimeScale.knee": (0.5,), "KneeTimeScale.slope": (0.1,),
    "L0.above": (0.1,),
    "L2Ball.strength": (0.5,),
    "LCA.initial": (0.4,), "LCA.tau": (3.0, 5.0),
    "Layer.border": ("mirror", 0.5, "image"), "Layer.every": (Every(2), Every(3), DISPLAY, NEVER),
    "Layer.offset": (-1, 1, 2), "Layer.reset": (Every(3), Every(5), DISPLAY, STEP),
    "LayerOutput.every": (STEP, Every(3), NEVER), "ConnectionOutput.every": (STEP, Every(3), NEVER),
    "Learning.every": (Every(2), Every(3), STEP, NEVER), "Learning.offset": (1, -1),
    "LeakyIntegrator.tau": (2.0,),
    "Linear.scale": (0.7, -0.5),
    "LogTimeScale.slope": (0.1,), "LogTimeScale.threshold": (2.0,),
    "Max.strength": (0.4,),
    "MomentumLCA.rate": (0.2,),
    "Movie.every": (2,),
    "Oja.rate": (0.05,),
    "Output.flush": (DISPLAY, Every(5), STEP),
    "OverTime.by": ("display", "update", "step", "step of display"),
    "Probe.every": (Every(2), DISPLAY, NEVER), "Probe.offset": (1,),
    "RateDecay.phase": (1,),
    "Rectified.threshold": (0.1, -0.2), "LCA.threshold": (0.1, 0.05),
    "Retina.background": (300.0,), "Retina.begin": (1.0,), "Retina.burst_duration": (1.5,),
    "Retina.burst_rate": (310.0,), "Retina.end": (4.0,), "Retina.rate": (900.0, 500.0),
    "Retina.recovery": (1.0,), "Retina.refractory": (0.0, 1.0),
    "Rescale.std": (0.5,), "Rescale.high": (0.8,), "Rescale.low": (-0.5,), "Rescale.mean": (0.2,),
    "Rescale.norm": (0.7,),
    "Run.dt": (0.5,), "Run.seed": (7,), "Run.verify": (1,),
    "Scaling.strength": (0.4, 0.6),
    "Sigmoid.center": (0.2,), "Sigmoid.width": (0.5,),
    "Sparse.delays": (1.3,), "Sparse.speed": (2.0,),
    "SpikeStatistics.every": (Every(2), DISPLAY), "SpikeStatistics.least": (1,),
    "Statistics.above": (0.1,),
    "Sum.strength": (0.8,),
    "Thresholded.maximum": (0.2, 0.7), "Thresholded.minimum": (0.05,), "Thresholded.shift": (0.05,),
    "Thresholded.slopes": ((-0.2, 0.6),), "Thresholded.threshold": (0.1, 0.05),
    "Thresholded.vertices": (((0.1, 0.0), (0.1, 0.2), (0.5, 0.4)),), "Thresholded.width": (0.3,),
    "TimeScale.factor": (0.2,), "TimeScale.growth": (0.1,), "TimeScale.maximum": (0.8,),
    "TimeScale.minimum": (0.5,),
    "Tilted.slope": (0.3,),
    "Trimmed.cutoff": (0.05,), "Trimmed.hole": ((1, 1),),
    "Until.every": (1, 2),
}  # fmt: skip
"""Values by key; a key of which these are other than the default in most networks is in `USUAL`."""

USUAL = {
    "LCA.tau", "LCA.threshold", "Thresholded.threshold", "FISTA.step", "FISTA.threshold",
    "ConductanceLIF.tau", "ConductanceLIF.threshold", "Constant.value", "LeakyIntegrator.tau",
    "Averaging.rate", "Adam.rate", "Retina.rate",
    "TimeScale.minimum", "TimeScale.maximum", "TimeScale.factor",
    "Sparse.init",
}  # fmt: skip
"""Keys with which most networks depart from the default, at which little happens in a short run."""

_PIXELS = "how images are made, of which steps see the pixels: tests/sources"
_WEIGHTS = "numbers of initial weights: tests/weights"
_POINTS = "which points there are, not how they are computed: tests/spec and tests/waves"
NOT_DRAWN: Mapping[str, str] = {
    **dict.fromkeys((
        "source cifar10", "source cifar100", "source idx", "source images", "source iterable",
        "source labels", "source photographs", "source sound", "source video", "ImageArray.", "Iterable.",
        "Labels.", "Photographs.",
        "Invert.", "View.crop", "View.offset", "View.contrast", "View.on_bad_item", "Dataset.",
        "Function.channels",
        "Crop.", "Pad.", "Resize.", "Flip.", "Frames.", "Whiten.", "ZCA.", "transform ", "Normalize.method",
        "Bars.", "DeadLeaves.", "Gratings.", "Noise.",
    ), _PIXELS),
    **dict.fromkeys((
        "Directed.", "Gabor.", "Gaussian.", "Gaussian2D.", "ImagePatches.", "PetaVisionGaussian.",
        "PetaVisionOneToOne.", "PetaVisionSectors.", "TruncatedNormal.", "Uniform.", "WeightArray.",
        "WeightFile.",
    ), _WEIGHTS),
    **dict.fromkeys(("Sweep.draw", "Sweep.seed", "Sweep.table", "Sweep.combine", "Interval."), _POINTS),
    **dict.fromkeys(
        ("Sparse.profile", "Profile."), "which synapses there are, not what they carry: tests/connections"
    ),
    **dict.fromkeys(
        ("learning rule online", "Online."),
        "it replaces atoms, as small differences decide, and patches must not overlap: tests/learning",
    ),
    "Sparse.matrix": "read as a file is: tests/test_arrays.py",
    **dict.fromkeys(
        ("Run.threads", "Run.device", "Run.kernel", "Run.tf32", "Run.pool", "Sweep.wave"),
        "run and compared with each",
    ),
    "Until.solver": "for codes of one position alone: tests/engine/test_exact_start.py",
    **dict.fromkeys(("Run.wall_limit", "Run.stuck_after"), "when a run ends: tests/system"),
    **dict.fromkeys(("Run.start_from", "Run.batch_change"), "what a run starts from: tests/system"),
    **dict.fromkeys(("Run.batch", "Run.display", "Run.displays", "Run.steps"), "sizes"),
}  # fmt: skip
"""Words, or their beginnings, that are left out, and why."""


@cache
def drawn(word: str) -> bool:
    """Return whether random networks have a word."""
    return not any(word.startswith(beginning) for beginning in NOT_DRAWN)


def values(model: type[Model], key: str) -> list[Any]:
    """Return the values of a key other than its default, of those that do not depend on the network."""
    given = VALUES.get(named(model, key))
    usual = model.model_fields[key].get_default(call_default_factory=True)
    return [value for value in (literals(model, key) if given is None else given) if value != usual]
