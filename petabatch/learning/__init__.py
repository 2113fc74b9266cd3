"""Learning rules; `petabatch.builtins` imports every file of this folder."""

from petabatch.learning.adam import Adam
from petabatch.learning.averaging import RateDecay
from petabatch.learning.hebbian import Hebbian
from petabatch.learning.oja import Oja
from petabatch.learning.online import Online
from petabatch.learning.revive import Revive
from petabatch.learning.synapses import Stdp, SynapticEquations

__all__ = ["Adam", "Hebbian", "Oja", "Online", "RateDecay", "Revive", "Stdp", "SynapticEquations"]
