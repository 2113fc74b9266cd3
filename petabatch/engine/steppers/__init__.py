"""Steppers: what advances the slices of a lane from one sync event to the next."""
