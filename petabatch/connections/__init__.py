"""Connection types; `petabatch.builtins` imports every file of this folder."""

from petabatch.connections.conv import Conv
from petabatch.connections.identity import Identity
from petabatch.connections.largest import Largest
from petabatch.connections.pool import Pool
from petabatch.connections.sparse import Sparse
from petabatch.connections.views import Clone, Transpose

__all__ = ["Clone", "Conv", "Identity", "Largest", "Pool", "Sparse", "Transpose"]
