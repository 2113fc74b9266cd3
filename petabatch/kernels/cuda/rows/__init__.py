"""Row functions translated into CUDA kernels."""
