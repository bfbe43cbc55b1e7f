"""`Submitter`: runs batches for a caller that supplies the fed inputs, such as a server, and adds the sources' data."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX, call_back
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._definition.output_declarations import OutputDeclarations
from dali_proxy.pipeline._definition.sources import SourceGroup
from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._external_source.reader import EndOfData
from dali_proxy.pipeline._operator_api.request import BatchRequest, BatchResult, as_batch_error
from dali_proxy.pipeline.errors import InputError, PipelineError


@dataclass(frozen=True)
class _Submitted:
    request: BatchRequest
    on_done: Callable[[BatchResult], None]


class Submitter:
    """Adds the data of the sources to each request, in the order of the requests, on a separate thread.

    Sources that take an index receive the number of the batch from the request's key.
    """

    def __init__(self, executor: Executor, sources: SourceGroup, declared: OutputDeclarations) -> None:
        self._executor = executor
        self._sources = sources
        self._declared = declared
        self._queue: queue.SimpleQueue[_Submitted | None] = queue.SimpleQueue()
        self._lock = new_lock(Level.LEAF, "submitter")  # guards the start of the thread
        self._thread: threading.Thread | None = None

    def submit(self, request: BatchRequest, on_done: Callable[[BatchResult], None], *, on_caller: bool = False) -> None:
        """Start a batch like `Executor.submit`, but pass errors of the sources and checked results to `on_done`.

        Raises:
            PipelineError: as `Executor.submit`; or the thread for the sources can't be started.
        """
        if not self._declared.is_empty:
            on_done = partial(self._check, on_done)
        if not len(self._sources):
            self._executor.submit(request, on_done, on_caller=on_caller)
            return
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name=f"{THREAD_PREFIX}external-sources", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    raise PipelineError(f"the thread that calls the sources can't be started: {error}") from error
                self._thread = thread
        self._queue.put(_Submitted(request, on_done))

    def _check(self, on_done: Callable[[BatchResult], None], result: BatchResult) -> None:
        on_done(self._declared.checked(result))

    def close(self) -> None:
        """Start the submitted batches, then end the thread."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()

    def _work(self) -> None:
        while True:
            submitted = self._queue.get()
            if submitted is None:
                return
            try:
                request = self._complete(submitted.request)
            except BaseException as error:  # noqa: BLE001 - any error belongs to this batch
                self._executor.readers.skip(submitted.request.batch_size)
                self._refuse(submitted, error)
                continue
            try:
                self._executor.submit(request, submitted.on_done)
            except BaseException as error:  # noqa: BLE001 - so does this one
                self._refuse(submitted, error)

    def _complete(self, request: BatchRequest) -> BatchRequest:
        try:
            batches = self._sources.next_batch(request.key, request.batch_size, self._executor.copy_input)
        except EndOfData:
            raise InputError(
                "a source of the pipeline has no more data, but batches are still requested: let it cycle "
                '(cycle="quiet")'
            ) from None
        return replace(request, inputs={**request.inputs, **batches})

    def _refuse(self, submitted: _Submitted, error: BaseException) -> None:
        if submitted.request.on_inputs_read is not None:
            call_back(submitted.request.on_inputs_read)
        failure = as_batch_error(error, "a batch was started")
        call_back(submitted.on_done, BatchResult(error=failure))
