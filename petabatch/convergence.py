"""How many displays of a run came to the gap of `run.until`, and so ended early."""

from __future__ import annotations

import numpy as np

from petabatch.logs import log
from petabatch.network.until import GAP
from petabatch.parallel.comm import Comm
from petabatch.spec.network import Network


class Convergence:
    """The displays of a process so far."""

    def __init__(self, network: Network) -> None:
        until = network.run.until
        self._tolerance = np.inf if until is None else until.gap
        self._shown = self._certified = 0

    def count(self, path: str, values: np.ndarray) -> None:
        """Count displays by what was recorded by a path."""
        if path == f"probes/{GAP}":
            self._shown += values.size
            self._certified += int((values <= self._tolerance).sum())

    def report(self, comm: Comm) -> None:
        """Warn if no display was stopped early, or hardly any; collective."""
        ranks = comm.gather((self._shown, self._certified))
        if ranks is None:
            return
        shown, certified = (sum(column) for column in zip(*ranks, strict=True))
        if shown and not certified:
            log.warning(
                "run.until: none of the %d displays came to a gap of %g, so none ended early\n"
                "    hint:     give them more steps (run.display) or a larger gap; `petabatch check` "
                "compares coefficient and threshold",
                shown,
                self._tolerance,
            )
        elif certified < shown:
            log.info("run.until: %d of %d displays came to a gap of %g", certified, shown, self._tolerance)
