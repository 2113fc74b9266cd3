"""The command line: one thin verb per public function."""

from __future__ import annotations

import sys
from typing import NoReturn

from petabatch.cli.app import app
from petabatch.parallel.failure import reporting

# Help lists verbs, in groups (`rich_help_panel`), in the order in which they are imported.
# isort: off
from petabatch.cli import runs, networks, results, exchange, kernels  # noqa: F401
# isort: on

__all__ = ["app", "main"]


def main() -> NoReturn:
    """Run one of these verbs."""
    with reporting():
        app(standalone_mode=True)
    sys.exit(0)
