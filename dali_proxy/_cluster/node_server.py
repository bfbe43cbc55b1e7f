"""A server in a cluster: the Ray actor that reads the samples of batches, runs the pipeline and returns the results."""

from __future__ import annotations

import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from dali_proxy._cluster.batch_pickle import dumps
from dali_proxy._cluster.result_stream import Address, ResultSender, is_encrypted
from dali_proxy._common.batch_reading import BatchRequest, DatasetReader, DatasetReaders
from dali_proxy._common.folders import make_folder, new_folder, remove_dead_folders, remove_folder
from dali_proxy._consumer.consumer import ConsumerClient
from dali_proxy._host import HOSTS, HostOptions
from dali_proxy._transport.endpoint import Endpoint, serve_here
from dali_proxy._worker.tickets import Ticket
from dali_proxy.errors import BatchError
from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._ipc import pickling


class RemoteHost(NamedTuple):
    """The host that a server starts.

    Attributes:
        pipeline: the pipeline, from `serialize_for_host`.
        mode: "process" or "thread".
        endpoint: endpoint of the handle in the training process, which the dataset's proxies have.
        options: settings. The server replaces the path and the secrets.
        home: Ray's ID of the node of the training process.
    """

    pipeline: bytes
    mode: str
    endpoint: Endpoint
    options: HostOptions
    home: str


class NodeServer:
    """A server in a cluster. Ray runs its methods on several threads, so that batches overlap.

    All calls of the dataset happen on one thread, since few datasets are thread-safe.
    """

    def __init__(self) -> None:
        import ray

        self._address = ray.util.get_node_ip_address()
        self._node = f"node {self._address}"
        self._node_id = ray.get_runtime_context().get_node_id()
        self._sender: ResultSender | None = None
        torch.set_num_threads(1)  # as in torch's workers
        self._reading = ThreadPoolExecutor(1, thread_name_prefix=f"{THREAD_PREFIX}reading")
        self._readers = DatasetReaders(self._load)
        self._sessions: set[int] = set()

    def start(self, host: RemoteHost) -> Address | None:
        """Start the pipeline's host. Return the address for large results, or None if Ray carries them.

        Raises:
            BuildError: the pipeline can't run here.
        """
        remove_dead_folders()
        folder = new_folder()
        path, key = os.path.join(folder, "socket"), secrets.token_bytes(32)
        own = replace(host.endpoint, path=path, key=key, is_remote=False)
        options = replace(host.options, path=path, key=key, server=secrets.token_bytes(16))
        try:
            with make_folder(folder):
                self._host = HOSTS[host.mode](host.pipeline, options)
            self._consumer = ConsumerClient(own, self._host.describe_exit, self._host.local)
        except BaseException:
            remove_folder(folder)
            raise
        serve_here(host.endpoint, own)
        if self._node_id == host.home or is_encrypted():  # on one node, the object store needs the fewest copies
            return None
        self._sender = ResultSender(self._address)
        return self._sender.address

    def make(self, request: BatchRequest) -> tuple[bytes, list[Any] | None]:
        """Return a batch with its results; see `batch_pickle`. The buffers are None if they were sent directly.

        Raises:
            ServerDiedError: the pipeline's host is gone.
        """
        batch = self._reading.submit(self._read, request).result()
        data, buffers = dumps(batch, self._outputs)
        if self._sender is not None and self._sender.send(request.number, buffers):
            return data, None
        return data, buffers

    def close_sessions(self, sessions: tuple[int, ...]) -> None:
        """Close the sessions of iterators that have ended."""
        self._reading.submit(self._close_sessions, sessions).result()

    def statistics(self) -> dict[str, Any]:
        """Return the host's counters."""
        return self._consumer.statistics()

    def stop(self) -> None:
        """Stop the host in an orderly way."""
        self._consumer.close()
        self._host.stop("it was stopped")

    def _outputs(self, ticket: Ticket) -> tuple[Any, ...]:
        try:
            return self._consumer.outputs(ticket)
        except BatchError as error:
            if hasattr(error, "add_note"):  # since Python 3.11
                error.add_note(f"on {self._node}")
            raise

    def _read(self, request: BatchRequest) -> Any:
        reader = self._readers.find(request)
        if request.session not in self._sessions:
            self._consumer.open_session(request.session)
            self._sessions.add(request.session)
        return reader.read(request)

    def _load(self, request: BatchRequest) -> DatasetReader:
        import ray

        reader: DatasetReader = pickling.loads(ray.get(request.data[0]))
        reader.begin(0, 1, self._node)
        return reader

    def _close_sessions(self, sessions: tuple[int, ...]) -> None:
        for session in self._sessions.intersection(sessions):
            self._consumer.close_session(session)
        self._sessions.difference_update(sessions)
