"""From a plan to numbers: the only loop, its lanes, steppers, backends and weight updates."""
