"""Describe, compile and run pipelines that load data: operators in the tradition of NVIDIA DALI, on the CPU and the GPU."""

from pipeline import errors, fn, ops, tensors, types
from pipeline.definition import Pipeline, pipeline_def
from pipeline.graph import DataNode

__all__ = ["DataNode", "Pipeline", "errors", "fn", "ops", "pipeline_def", "tensors", "types"]
