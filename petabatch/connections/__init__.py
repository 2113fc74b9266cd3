"""Connection types; `petabatch.builtins` imports every file of this folder."""

from petabatch.connections.background import Background
from petabatch.connections.conv import Conv
from petabatch.connections.identity import Identity
from petabatch.connections.largest import Largest
from petabatch.connections.pool import Pool
from petabatch.connections.potential import Potential
from petabatch.connections.sparse import Sparse
from petabatch.connections.views import Clone, Transpose

__all__ = ["Background", "Clone", "Conv", "Identity", "Largest", "Pool", "Potential", "Sparse", "Transpose"]
