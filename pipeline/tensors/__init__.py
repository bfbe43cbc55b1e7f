"""Batches of samples: ragged lists of tensors on the CPU and on the GPU."""

from pipeline.tensors.cpu import TensorCPU, TensorListCPU
from pipeline.tensors.gpu import TensorGPU, TensorListGPU
from pipeline.tensors.layout import check_layout

__all__ = ["TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU", "check_layout"]
