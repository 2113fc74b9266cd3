"""The stepper of any network, by its program: compiled, on the arrays of one slice."""

from petabatch.engine.steppers.program.stepper import ProgramStepper, Tabulated

__all__ = ["ProgramStepper", "Tabulated"]
