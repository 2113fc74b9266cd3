"""The stepper of any network, by its program: compiled, on the arrays of one slice."""

from petabatch.engine.steppers.program.stepper import ProgramStepper, make_tables

__all__ = ["ProgramStepper", "make_tables"]
