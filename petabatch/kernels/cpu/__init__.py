"""The numba kernels: dense and lazy steps of a sparse-coding loop, gradient, patch operators, exact sum."""
