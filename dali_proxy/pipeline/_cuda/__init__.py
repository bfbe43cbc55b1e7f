"""CUDA for all kernels: compilation, launches, memory and streams. Importing this needs no CuPy."""
