"""Codes of images in torch, with gradients: exact codes, differentiated on their active sets.

Needs torch (the `torch` extra): raises ResourceError without it.
"""

from petabatch.errors import ResourceError, install

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ResourceError(f"torch is not installed\n    hint:     {install('torch')}") from error

from petabatch.torch.active_set import SingularError
from petabatch.torch.code import SparseCode, sparse_code

__all__ = ["SingularError", "SparseCode", "sparse_code"]
