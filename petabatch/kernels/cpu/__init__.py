"""Kernels compiled by numba: the dense steps of a sparse-coding loop, its gradient, patch operators."""
