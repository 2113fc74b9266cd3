"""The entrance of the command line: `info` answers at once, without what the other verbs need."""

from __future__ import annotations

import sys
from typing import NoReturn

from petabatch.errors import PetabatchError, StoppedEarly


def main() -> NoReturn:
    """Run a command line; report every PetabatchError as a message and an exit code, without a traceback.

    Under MPI an error on one rank ends all ranks, with that rank's message; an early stop is collective.
    """
    from petabatch.parallel.failure import fail

    try:
        if sys.argv[1:2] == ["info"]:
            from petabatch.report.command import info

            info(sys.argv[2:])
        else:
            from petabatch.cli import app

            app(standalone_mode=True)
    except StoppedEarly as error:
        if error.rank == 0:
            sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    except PetabatchError as error:
        fail(str(error), error.exit_code)
    except MemoryError as error:
        fail(
            f"not enough memory: {error}\n"
            "    hint:     lower run.batch, use smaller layers, or distribute the slices over more machines "
            "with MPI",
            1,
        )
    except OSError as error:
        if error.filename is None:
            raise
        fail(f"{error.filename}: {error.strerror}", 1)
    sys.exit(0)
