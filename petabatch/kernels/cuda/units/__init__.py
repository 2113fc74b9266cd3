"""Updates of layers as CUDA kernels: a thread sums up what arrives at a unit, and makes its update."""
