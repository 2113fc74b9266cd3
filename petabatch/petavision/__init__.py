"""PetaVision's parameter files as networks of petabatch."""

from petabatch.petavision.read import Imported, load, read

__all__ = ["Imported", "load", "read"]
