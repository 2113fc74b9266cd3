"""Plots of a run: dictionary, reconstructions, energy. Plain arrays in, matplotlib figures out.

Plotting needs the `analysis` extra.
"""

from petabatch.plotting.comparison import psnr, reconstructions
from petabatch.plotting.curves import energy
from petabatch.plotting.figures import finish
from petabatch.plotting.tableau import dictionary

__all__ = ["dictionary", "energy", "finish", "psnr", "reconstructions"]
