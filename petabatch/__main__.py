"""`python -m petabatch`: the command line."""

from petabatch.main import main

main()
