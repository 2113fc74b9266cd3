"""Probe types; `petabatch.builtins` imports every file of this folder."""

from petabatch.probes.cost import Cost
from petabatch.probes.energy import Energy
from petabatch.probes.norms import L0, L1, L2
from petabatch.probes.optimality import Optimality
from petabatch.probes.psnr import PSNR
from petabatch.probes.spike_statistics import SpikeStatistics
from petabatch.probes.statistics import Statistics
from petabatch.probes.terms import Quotient, Sum

__all__ = [
    "L0",
    "L1",
    "L2",
    "PSNR",
    "Cost",
    "Energy",
    "Optimality",
    "Quotient",
    "SpikeStatistics",
    "Statistics",
    "Sum",
]
