"""Reports for the command line: plan, drawing and stability of a network, progress of a run, installation."""
