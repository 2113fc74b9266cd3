"""What the server of forks imports and looks up, once for all of them."""

from __future__ import annotations

import os

import matplotlib.pyplot  # noqa: F401

from petabatch.importing import importing

with importing():
    import petabatch.cli  # noqa: F401
    from petabatch import simulation
    from petabatch.bench import EXAMPLE
    from petabatch.storage import provenance
    from support import forked

os.environ["PYTHONPATH"] = os.environ["PYTHONPATH"].removeprefix(forked.TESTS).removeprefix(os.pathsep)
if not os.environ["PYTHONPATH"]:
    del os.environ["PYTHONPATH"]
provenance.commit()
provenance.library_versions()
simulation.plan(simulation.read(EXAMPLE))
