"""Describes, compiles and runs pipelines that load data, with the operators of NVIDIA DALI."""

from pipeline import errors, fn, math, ops, tensors, types
from pipeline._definition import OperatorConcurrency, Pipeline, StreamPolicy, do_not_convert, pipeline_def
from pipeline._graph import DataNode, newaxis

__all__ = [
    "DataNode",
    "OperatorConcurrency",
    "Pipeline",
    "StreamPolicy",
    "do_not_convert",
    "errors",
    "fn",
    "math",
    "newaxis",
    "ops",
    "pipeline_def",
    "tensors",
    "types",
]
