"""Terms of the field that other programs use, and what they are called here; for hints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SYNONYMS: Mapping[str, Sequence[str]] = {
    # numbers of a run
    "batch_size": ("batch",),
    "n_batch": ("batch",),
    "duration": ("steps",),
    "epochs": ("displays",),
    "n_epochs": ("displays",),
    "iterations": ("steps", "display"),
    "max_iter": ("steps", "display"),
    "sim_time": ("steps",),
    "t_end": ("steps",),
    "time_step": ("dt",),
    "timestep": ("dt",),
    "dtype": ("precision",),
    "random_state": ("seed",),
    "rng_seed": ("seed",),
    "n_jobs": ("threads",),
    "num_threads": ("threads",),
    "backend": ("device",),
    # layers
    "alpha": ("threshold",),
    "lam": ("threshold", "coefficient"),
    "lambda": ("threshold", "coefficient"),
    "lambda_": ("threshold", "coefficient"),
    "lmbda": ("threshold", "coefficient"),
    "n": ("shape",),
    "n_neurons": ("shape",),
    "size": ("shape",),
    "units": ("shape",),
    "model": ("equations",),
    "eqs": ("equations",),
    "tau_m": ("tau",),
    "time_constant": ("tau",),
    "t_ref": ("refractory",),
    "refractory_period": ("refractory",),
    "threshold": ("spike",),
    "v_th": ("spike", "threshold"),
    "v_threshold": ("spike", "threshold"),
    "nonnegative": ("signed",),
    "positive": ("signed",),
    "params": ("parameters",),
    "namespace": ("parameters",),
    # connections
    "from": ("pre",),
    "source": ("pre",),
    "to": ("post",),
    "target": ("post",),
    "filter_size": ("patch",),
    "kernel": ("patch",),
    "kernel_size": ("patch",),
    "patch_size": ("patch",),
    "p": ("probability",),
    "prob": ("probability",),
    "fan_in": ("in_degree",),
    "weight": ("init",),
    "weights": ("init",),
    "w": ("init",),
    "eta": ("rate",),
    "learning_rate": ("rate",),
    "lr": ("rate",),
    # types and choices
    "cuda": ("gpu",),
    "double": ("float64",),
    "single": ("float32",),
    "fashion_mnist": ("idx",),
    "mnist": ("idx",),
    "file": ("images",),
    "files": ("images",),
    "folder": ("images",),
    "film": ("video",),
    "movie": ("video",),
    "lif": ("conductance_lif", "neurons"),
    "izhikevich": ("neurons",),
    "relu": ("rectified",),
    "max_pool": ("pool",),
    "normal": ("gaussian",),
    "sgd": ("hebbian",),
}
"""By what is written elsewhere, in small letters, what it may be here, the first choice first."""

_DENSE = "a dense matrix is a conv whose patch is the whole layer, or sparse with probability = 1"

EXPLAINED: Mapping[str, Mapping[str, str]] = {
    "stride": {"patch": "the stride follows from the shapes of pre and post"},
    "padding": {"patch": "patches beyond the edge end there; `border` of a layer says what lies around it"},
    "dense": {"conv": _DENSE},
    "full": {"conv": _DENSE},
    "linear": {"conv": _DENSE},
    "stdp": {"hebbian": "synapses between spikes do not learn"},
    "on_pre": {"delays": "what arrives is added to the variable or current that `target` names"},
}
"""Of terms without a counterpart, what is to be known, by a name among the choices where it holds."""
