"""The kernels of all operations, imported so that `records.py` knows them; a new file is found.

An operation is declared in `kernels/operations/`; its kernel names the fields.
"""

from importlib import import_module
from pkgutil import walk_packages

from petabatch.kernels.cpu import program
from petabatch.kernels.cpu.program.records import OPERATIONS

__all__ = ["OPERATIONS"]

for module in walk_packages(program.__path__, f"{program.__name__}."):
    if module.name != __name__:
        import_module(module.name)
