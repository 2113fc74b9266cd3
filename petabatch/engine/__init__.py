"""From a plan to numbers: lanes of slices, the fused loop on CPU and GPU, the sums over slices."""
