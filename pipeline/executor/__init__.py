"""Compiles a graph into phases and runs batches through them, several at a time."""

from pipeline.executor.executor import Executor
from pipeline.executor.request import BatchRequest, BatchResult, ExecutorConfig

__all__ = ["BatchRequest", "BatchResult", "Executor", "ExecutorConfig"]
