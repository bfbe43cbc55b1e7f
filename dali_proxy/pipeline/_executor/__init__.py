"""The executor: run batches through the phases of a graph, several batches at a time."""

from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._operator_api.request import BatchRequest, BatchResult, ExecutorConfig

__all__ = ["BatchRequest", "BatchResult", "Executor", "ExecutorConfig"]
