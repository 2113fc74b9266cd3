"""Hand-written CUDA kernels: `.cu` texts, and what stands in front of them for one geometry."""
