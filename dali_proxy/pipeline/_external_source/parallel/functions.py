"""Functions of the user that run in worker processes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from dali_proxy.pipeline._concurrency.cost import Cost, charge
from dali_proxy.pipeline._external_source.parallel.pickler import SourcePickler
from dali_proxy.pipeline._external_source.parallel.pool import RemoteFailure, WorkerPool
from dali_proxy.pipeline._external_source.parallel.remote import RemoteTraceback, find_type
from dali_proxy.pipeline._external_source.parallel.source import chunk_bounds, join
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._ipc.pickling import display_name
from dali_proxy.pipeline._operator_api.request import BatchRequest, TensorList
from dali_proxy.pipeline._user_functions.call import FunctionCall
from dali_proxy.pipeline._user_functions.seeding import Seeds
from dali_proxy.pipeline.errors import OperatorError, SampleFailure, WorkerError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.types import BatchInfo


class FunctionPool:
    """Worker processes that run the functions of a graph.

    Raises:
        WorkerError: the processes couldn't be started.
    """

    def __init__(
        self,
        nodes: Sequence[GraphNode],
        max_batch_size: int,
        num_workers: int,
        start_method: str,
        pickler: SourcePickler | None = None,
    ) -> None:
        self._calls = sent = [FunctionCall.from_node(node, None) for node in nodes]
        if pickler is not None:
            sent = [replace(call, function=pickler.pickled(call.function)) for call in sent]
        self._seconds: list[float | None] = [None] * len(sent)  # of a sample, in the last batch
        self._numbers = {_identity(node): number for number, node in enumerate(nodes)}
        self._pool = WorkerPool(sent, max_batch_size, num_workers, start_method, "Python functions of the pipeline")

    @property
    def size(self) -> int:
        """Number of processes."""
        return self._pool.size

    @property
    def pids(self) -> tuple[int, ...]:
        """IDs of the processes."""
        return self._pool.pids

    def runs(self, node: GraphNode) -> bool:
        """Return whether the function of an operator may run in the processes."""
        return _identity(node) in self._numbers

    def give_up(self, node: GraphNode) -> None:
        """Note that an operator won't use the processes. The last one ends them."""
        if self._numbers.pop(_identity(node), None) is not None and not self._numbers:
            self.close()

    def run(
        self, node: GraphNode, request: BatchRequest, size: int, inputs: Sequence[TensorListCPU], seeds: Seeds
    ) -> list[TensorList]:
        """Process a batch. Several threads may call this at once.

        Raises:
            OperatorError: the function failed, or processes died, hung or were ended.
        """
        number = self._numbers[_identity(node)]
        call, timeout = self._calls[number], node.argument("timeout") or 0.0
        info = BatchInfo(request.key.iteration, request.key.epoch)
        if call.batch_processing:
            bounds = [(0, size)]
        else:
            ahead = self._pool.samples_ahead() / self._pool.size
            bounds = chunk_bounds(size, self._pool.size, self._seconds[number], ahead)
        chunks = [
            self._pool.submit_function(
                number,
                info,
                first,
                [_part(each, first, last) for each in inputs],
                last - first,
                seeds if call.batch_processing else seeds[first:last],
                timeout,
            )
            for first, last in bounds
        ]
        results, begin = [], time.perf_counter_ns()
        try:
            for chunk in chunks:
                results.append(chunk.result())
            cost = reduce(Cost.plus, (each.cost for each in results))
            charge(cost, time.perf_counter_ns() - begin)
            self._seconds[number] = cost.elapsed / 1e9 / size
        except RemoteFailure as failure:
            failed = failure.failed
            cause = RemoteTraceback(failure.worker, failed.traceback)
            kind = OperatorError.type_for(find_type(failed.type_name))
            failures = tuple(SampleFailure(each, cause) for each in (failed.sample,) if each is not None)
            raise kind(failed.reason, failures=failures) from cause
        except WorkerError as error:
            samples = () if call.batch_processing else range(*bounds[len(results)])
            failures = tuple(SampleFailure(sample, error) for sample in samples)
            raise OperatorError(f"{error}\n  in function {display_name(call.function)}", failures=failures) from error
        finally:
            for chunk in chunks:
                chunk.cancel()
        return [join([each.batches[output] for each in results]) for output in range(call.num_outputs)]

    def close(self) -> None:
        """End the processes. Further calls do nothing."""
        self._pool.close()


def _identity(node: GraphNode) -> tuple[str, int]:
    """Return what identifies an operator in all forms of its graph, in which its index may differ."""
    return node.name, node.random_stream


def _part(batch: TensorListCPU, first: int, last: int) -> TensorListCPU:
    samples = batch.samples[first:last] if batch.dense is None else batch.dense[first:last]
    return TensorListCPU(samples, batch.layout())
