"""`python -m petabatch`: the command line."""

from petabatch.cli import main

main()
