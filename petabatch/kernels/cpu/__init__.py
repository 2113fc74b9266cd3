"""The numba kernels: steps of any network, gradient, patch operators, exact sum."""
