"""Plots of a run: functions that take an open run and return a matplotlib figure.

    with petabatch.open("runs/natural_images") as run:
        figure = plotting.dictionary(run)

`figure=` draws into a figure or subfigure that exists, or onto a `Page` of another size or style:
`plotting.energy(run, figure=plotting.Page(columns=1))`. Plots need the `analysis` extra.
"""

from petabatch.plotting.code import code as code
from petabatch.plotting.compare import compare as compare
from petabatch.plotting.convergence import convergence as convergence
from petabatch.plotting.correlation import correlation as correlation
from petabatch.plotting.dictionary import dictionary as dictionary
from petabatch.plotting.energy import energy as energy
from petabatch.plotting.features import features as features
from petabatch.plotting.figures import STYLE as STYLE
from petabatch.plotting.figures import Page as Page
from petabatch.plotting.files import finish as finish
from petabatch.plotting.live import live as live
from petabatch.plotting.movie import movie as movie
from petabatch.plotting.phase import phase as phase
from petabatch.plotting.raster import raster as raster
from petabatch.plotting.receptive_fields import receptive_fields as receptive_fields
from petabatch.plotting.reconstructions import reconstructions as reconstructions
from petabatch.plotting.select import psnr as psnr
from petabatch.plotting.sparsity import sparsity as sparsity
from petabatch.plotting.sweep import sweep as sweep
from petabatch.plotting.texts import described as described
from petabatch.plotting.tiles import bare as bare
from petabatch.plotting.traces import traces as traces
from petabatch.plotting.weights import weights as weights
from petabatch.plotting.weights_over_time import weights_over_time as weights_over_time
