"""The sparse-coding loop as CUDA kernels: `.cu` texts, compiled behind the constants of one geometry."""
