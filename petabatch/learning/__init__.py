"""Learning rules, one to a file. Importing this package makes them known to params files."""

from petabatch.learning.adam import Adam
from petabatch.learning.averaging import RateDecay
from petabatch.learning.hebbian import Hebbian
from petabatch.learning.oja import Oja

__all__ = ["Adam", "Hebbian", "Oja", "RateDecay"]
