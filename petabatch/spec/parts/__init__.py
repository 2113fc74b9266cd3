"""Abstract parts of a network: layers, sources, connections and probes.

A part is both an immutable table of a params file (its fields) and the behaviour it stands for (its methods).
It never holds simulation arrays: it declares them as `Variable`s, and the engine allocates them and passes
them in.
"""

from petabatch.spec.capabilities import Capabilities as Capabilities
from petabatch.spec.parts.connection import Connection as Connection
from petabatch.spec.parts.connection import Operation as Operation
from petabatch.spec.parts.connection import PatchOwner as PatchOwner
from petabatch.spec.parts.connection import WeightOwner as WeightOwner
from petabatch.spec.parts.connection import Wiring as Wiring
from petabatch.spec.parts.layer import Controller as Controller
from petabatch.spec.parts.layer import Layer as Layer
from petabatch.spec.parts.layer import Penalty as Penalty
from petabatch.spec.parts.layer import Shape as Shape
from petabatch.spec.parts.layer import Stability as Stability
from petabatch.spec.parts.probe import Probe as Probe
from petabatch.spec.parts.probe import Reading as Reading
from petabatch.spec.parts.source import ImageLayer as ImageLayer
from petabatch.spec.parts.source import Source as Source
from petabatch.spec.parts.step_context import StepContext as StepContext
from petabatch.spec.parts.step_context import Tile as Tile
from petabatch.spec.schedule import DISPLAY as DISPLAY
from petabatch.spec.schedule import NEVER as NEVER
from petabatch.spec.schedule import STEP as STEP

Moment = StepContext  # the former name, which existing plug-ins import
