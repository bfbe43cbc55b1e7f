"""Batches of samples: ragged lists of tensors on the CPU and on the GPU."""

from dali_proxy.pipeline.tensors.cpu import TensorCPU, TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorGPU, TensorListGPU
from dali_proxy.pipeline.tensors.layout import check_layout

__all__ = ["TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU", "check_layout"]
