"""The simulator: a network that is run step by step, looked into and changed."""

from petabatch.simulator.saved import Saved
from petabatch.simulator.simulator import Simulator

__all__ = ["Saved", "Simulator"]
