"""CUDA kernels for ragged batches with thin launchers.

The kernels operate on pointers, shapes and regions, and don't depend on graphs or operators. A launcher returns the
launches of a batch, which `KernelContext` runs. You can import this package without CuPy.
"""

from dali_proxy.pipeline._kernels.samples import Samples

__all__ = ["Samples"]
