"""The built-in parts, imported so that params files can name them; a new file in these folders is found."""

from importlib import import_module
from pkgutil import iter_modules

from petabatch import connections, layers, learning, probes, sources, weights

__all__ = ["connections", "layers", "learning", "probes", "sources", "weights"]

for package in (connections, layers, learning, probes, sources, weights):
    for module in iter_modules(package.__path__, f"{package.__name__}."):
        import_module(module.name)
