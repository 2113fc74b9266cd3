"""Every part that comes with petabatch, imported so that params files can name it."""

from petabatch import connections, layers, learning, probes, sources, weights

__all__ = ["connections", "layers", "learning", "probes", "sources", "weights"]
