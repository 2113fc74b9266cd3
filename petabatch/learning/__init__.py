"""Learning rules, one to a file. Importing this package makes them known to params files."""

from petabatch.learning.hebbian import Hebbian

__all__ = ["Hebbian"]
