"""Messages between workers, the server and the training process. The data itself lies in shared memory.

A message with more than three fields is made with keywords, since the order of its fields is the order on the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from dali_proxy._transport.fields import Labels
from dali_proxy._transport.origin import Line, Name, Origin, Table, pack_keys, unpack_keys
from dali_proxy._transport.prepared import Prepared
from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._ipc.frames import Codec
from dali_proxy.pipeline._ipc.messages import MANY, U8, U16, U32, U64, Message, Meta

#: Version of the protocol. Increase it with every change of a message or of a report.
VERSION = 2

#: Slots of CUDA memory are numbered from here in messages.
CUDA_SLOTS = 1 << 24

ShortName: TypeAlias = Annotated[str, Meta(max_length=64)]
Text: TypeAlias = Annotated[str, Meta(max_length=1 << 20)]


class Hello(Message, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Client to server: the first message, which introduces the client.

    Other releases must be able to read the version. So its position never changes, new fields come last, and fields
    keep their types.

    Attributes:
        version: `VERSION` of the client.
        role: "worker" (submits batches), "consumer" (fetches results), "dataset worker" (reads batches for consumers),
            "pool" (starts the dataset workers) or "monitor" (reads reports, at the socket for monitors).
        pid: process ID.
        name: name in messages, such as "worker 3".
    """

    version: U16 = VERSION
    role: ShortName = ""
    pid: U32 = 0
    name: Name = ""


class Welcome(Message, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Answer to `Hello`. Descriptors: a worker gets the page and doorbell of completions, a consumer its control pages.

    Other releases read the version, as in `Hello`. A client of another release gets only that.

    Attributes:
        version: `VERSION` of the server.
        client: number of this connection, never used again by this server.
        server: random token of this start of the server.
        control_nbytes: size of a consumer's control page.
    """

    version: U16 = VERSION
    client: U64 = 0
    server: Annotated[bytes, Meta(max_length=16)] = b""
    control_nbytes: U32 = 0


class AttachSegment(Message, frozen=True):
    """Worker to server, with a descriptor: samples of later batches may lie in this segment."""

    segment: U32
    nbytes: U64


class DetachSegment(Message, frozen=True):
    """Worker to server: no sample of a later batch lies in this segment."""

    segment: U32


class InputBatch(Message, frozen=True):
    """The samples of one input of a batch.

    Attributes:
        dtype: one of `DTYPES` (`fields.py`).
        ndim: number of dimensions of each sample.
        table: ``int64[n, 2 + ndim]`` as bytes, one row per sample: segment, offset in bytes, shape.
    """

    dtype: ShortName
    ndim: U8
    table: Table


class Submit(Message, frozen=True, kw_only=True):
    """Worker to server: a batch to run.

    Attributes:
        seq: the client's number for the request: 0, 1, 2, ...
        session: iterator that the batch belongs to; 0 for none.
        epoch: epoch number, for random numbers; the worker's seed if the loader isn't `dali_proxy.DataLoader`.
        batch: number of the batch in its epoch, for random numbers.
        view: number of the request among those of the same batch: 0, 1, ...
        batch_size: number of samples.
        indices: dataset index of each sample, for errors; may be empty.
        names: name of each sample as the proxy got it, for errors; may be empty.
        inputs: one for each input of the pipeline.
        waited_ns: total time that this worker has waited for free space in its arena.
        global_batch: see `BatchKey`.
        begun_ns: time of `time.perf_counter_ns` when the worker began to read the samples, for traces.
        sent_ns: the same when it submitted them.
    """

    seq: U64
    session: U64
    epoch: U64
    batch: U64
    view: U32
    batch_size: U32
    indices: Labels
    inputs: Annotated[tuple[InputBatch, ...], MANY]
    waited_ns: U64 = 0
    names: Labels = ""
    global_batch: U64 | None = None
    begun_ns: U64 = 0
    sent_ns: U64 = 0


class Fetch(Message, frozen=True):
    """Consumer to server: request for a result. `Result` or `Failure` answers it when the batch is done."""

    client: U64
    seq: U64


class Release(Message, frozen=True):
    """Client to server: no consumer will fetch these requests.

    Attributes:
        requests: ``uint64[n, 2]`` as bytes: client, seq.
    """

    requests: Table

    @classmethod
    def pack(cls, requests: Sequence[tuple[int, int]]) -> Release:
        """Pack pairs ``(client, seq)``."""
        return cls(pack_keys(list(requests)))

    def unpack(self) -> list[tuple[int, int]]:
        """Return the pairs.

        Raises:
            ProtocolError: the table doesn't consist of pairs.
        """
        return unpack_keys(self.requests)


class OpenSession(Message, frozen=True):
    """Consumer to server: an iterator begins. Its requests have this number, and end with this consumer."""

    session: U64


class Advance(Message, frozen=True):
    """Consumer to server: send results of a session without being asked.

    Attributes:
        session: the session.
        through: number of the last batch to send; those of earlier messages stay allowed.
    """

    session: U64
    through: U64


class CloseSession(Message, frozen=True):
    """Consumer to server: an iterator has ended, and its requests can be dropped."""

    session: U64


class OutputBatch(Message, frozen=True, kw_only=True):
    """One output of a batch, in a slot.

    Attributes:
        device: "cpu", "cuda", or "local" for an object of the same process.
        device_id: the GPU's number in the server's process; 0 for the CPU.
        dtype: one of `DTYPES` (`fields.py`).
        layout: names of the dimensions of a sample.
        dense: whether it is one array with the batch dimension in front.
        ndim: number of dimensions of the batch if it is dense, else of each sample.
        table: ``int64[n, 1 + ndim]`` as bytes, one row per array (one if dense): offset in the slot, shape.
        slot: number of the slot.
        generation: number of the loan of this slot to this consumer; 1 to 127.
        nbytes: size of the slot.
        attach: whether the slot is new to this consumer; then a descriptor comes with the message, or `handle` is set.
        handle: handles of CUDA memory and its events.
        private: whether other consumers get the slot, too: map it for this loan, and keep what is written to it apart.
    """

    device: ShortName
    device_id: U16
    dtype: ShortName
    layout: ShortName
    dense: bool
    ndim: U8
    table: Table
    slot: U32
    generation: U8 = 0
    nbytes: U64 = 0
    attach: bool = False
    handle: Annotated[bytes, Meta(max_length=1024)] = b""
    private: bool = False


class Result(Message, frozen=True, kw_only=True):
    """Server to consumer: the result of a request, which was fetched or which `Advance` allows.

    Attributes:
        client: client that submitted the request.
        seq: the client's number for the request.
        outputs: one for each output of the pipeline.
        detached: slots to unmap first, see `SlotsDetached`.
        origin: metadata for a consumer that runs the device stage, else None.
        prepared: GPU work that turns the outputs into the pipeline's outputs; None if they are the pipeline's outputs.
        session: the request's session; 0 for none.
        indices, names: see `Submit`; only if an output isn't dense.
        variant: variant of the pipeline that computed it; see `Place`.
        batch: see `Submit`.
    """

    client: U64
    seq: U64
    outputs: Annotated[tuple[OutputBatch, ...], MANY]
    detached: Annotated[tuple[U32, ...], MANY] = ()
    origin: Origin | None = None
    prepared: Prepared | None = None
    session: U64 = 0
    indices: Labels = ""
    names: Labels = ""
    variant: U8 = 0
    batch: U64 = 0


class Place(Message, frozen=True):
    """Consumer to server: run requests that the executor gets from now on with another variant of the pipeline.

    Attributes:
        variant: 0 for the pipeline of the start, n for the n-th alternative.
        measured: whether the consumer measures this variant, until its next `Place`. Then the server sends `Computed`,
            runs batches of iterators only as far ahead as its executor needs, so that the next variant follows soon,
            and builds all variants.
    """

    variant: U8
    measured: bool = False


class NotPlaced(Message, frozen=True):
    """Server to consumer: a variant of the pipeline can't run.

    Attributes:
        variant: see `Place`.
        reason: the error.
    """

    variant: U8
    reason: Text


class Computed(Message, frozen=True):
    """Server to consumer: the batches that a variant has computed since the consumer chose to measure it.

    Attributes:
        variant: see `Place`.
        batches: their number.
        ns: time between the ends of the first and of the last one, in nanoseconds.
    """

    variant: U8
    batches: U32
    ns: U64


class SlotsDetached(Message, frozen=True):
    """Server to consumer: the server won't use these slots again. Tensors over them stay valid.

    Attributes:
        slots: slot numbers.
    """

    slots: Annotated[tuple[U32, ...], MANY]


class Failure(Message, frozen=True, kw_only=True):
    """Server to consumer: the error of a fetched request. `clip` shortens long texts.

    Attributes:
        client: client that submitted the request.
        seq: the client's number for the request.
        type_name: the exception's class as "module:QualifiedName".
        message: text of the exception.
        arguments: the exception's arguments as JSON if they are plain, else empty.
        operator: the operator that failed, by its public name; may be empty.
        source_line: "file:line" where the user created the operator; may be empty.
        samples: positions in the batch that failed; empty for the batch as a whole.
        indices: dataset indices of these samples, as text.
        paths: files of these samples, if an input has paths; else empty.
        names: names of these samples, if the proxy got any; else empty.
        worker: name of the worker that submitted the batch.
        worker_pid: process ID of the worker.
        traceback: traceback in the server.
    """

    client: U64
    seq: U64
    type_name: Line
    message: Text
    arguments: Text = ""
    operator: Line = ""
    source_line: Line = ""
    samples: Annotated[tuple[U32, ...], MANY] = ()
    indices: Annotated[tuple[Line, ...], MANY] = ()
    paths: Annotated[tuple[Line, ...], MANY] = ()
    names: Annotated[tuple[Line, ...], MANY] = ()
    worker: Name = ""
    worker_pid: U32 = 0
    traceback: Text = ""


class StatsRequest(Message, frozen=True):
    """Consumer or monitor to server: request for a report.

    Attributes:
        token: number of the request.
        subject: "stats" (the counters), "graph" (the operators), "samples" (the images of the next batch), "trace"
            (start to record spans, and return those recorded since the last request) or "end trace" (the same, and
            stop). Monitors get the first three.
    """

    token: U64
    subject: ShortName = "stats"


class Stats(Message, frozen=True):
    """Answer to `StatsRequest`, as JSON."""

    token: U64
    text: Annotated[str, Meta(max_length=15 << 20)]


class LoopReport(Message, frozen=True, kw_only=True):
    """Consumer to server: counters of this process's loops, for monitors; see `dali_proxy.ServerStats`.

    Attributes:
        in_flight: numbers of batches on their way to the loop, by stage, with their reasons.
        looping: whether a loop has taken a batch and continues.
        rank: rank of the process.
        latency: durations of stages of batches; see `Latency.counts`.
        slowest: seconds that reading a sample took, by its dataset index.
        num_workers_reason, num_threads_reason: see `ServerStats`.
        reading, processor: elapsed and processor time in which the batches were read.
    """

    training: float
    worker_wait: float
    result_wait: float
    start_wait: float
    loop_batches: U64
    loop_samples: U64
    worker_starts: U64
    num_workers: U32
    looping: bool
    skipped: U64
    replaced: U64
    restarts: U64
    placement: ShortName
    placement_reason: Text
    in_flight: Annotated[tuple[tuple[Line, U32, Line], ...], MANY] = ()
    rank: U32 = 0
    latency: Annotated[tuple[tuple[ShortName, Annotated[tuple[tuple[int, U64], ...], MANY]], ...], MANY] = ()
    slowest: Annotated[tuple[tuple[Line, float], ...], MANY] = ()
    num_workers_reason: Text = ""
    num_threads_reason: Text = ""
    reading: float = 0.0
    processor: float = 0.0


class ReadBatch(Message, frozen=True, kw_only=True):
    """Consumer to server, and server to dataset worker: request to read a batch. Descriptor: the pickled reader.

    Attributes:
        number: the sender's number for the request.
        session: iterator that the batch belongs to.
        request: the pickled request. The server doesn't look at it.
        reader_nbytes: size of the pickled reader.
        slow: whether the batch probably takes long, so that no other one should wait for the same worker.
    """

    number: U64
    session: U64
    request: Annotated[bytes, Meta(max_length=15 << 20)]
    reader_nbytes: U64
    slow: bool = False


class BatchRead(Message, frozen=True, kw_only=True):
    """Answer to `ReadBatch`: the batch without the results of the pipeline, which the consumer fetches.

    Attributes:
        number: see `ReadBatch`.
        lengths: sizes of the pickle and of its buffers, one after the other; see `send_batch`.
        data: these, if they are small. Otherwise, a descriptor of shared memory comes with the message.
        error: reason why the batch can't be read; empty if it was.
    """

    number: U64
    lengths: Annotated[tuple[U64, ...], MANY] = ()
    data: Annotated[bytes, Meta(max_length=1 << 16)] = b""
    error: Text = ""


class DatasetWorkers(Message, frozen=True):
    """A number of dataset workers, of a server whose number may change.

    Consumer to server: how many it wants; the last message counts. Server to the process that starts them: how many to
    run. Server to consumers: how many read batches now.
    """

    count: Annotated[int, Meta(ge=0, le=1024)]


class PipelineThreads(Message, frozen=True):
    """Consumer to server: the number of threads that the pipeline shall have from now on."""

    count: Annotated[int, Meta(ge=1, le=1024)]


class Goodbye(Message, frozen=True):
    """Server to client: the last message, with the reason for an orderly end of the connection."""

    reason: Line


CODEC = Codec(
    {
        1: Hello,
        2: Welcome,
        3: AttachSegment,
        4: DetachSegment,
        5: Submit,
        6: Fetch,
        7: Release,
        8: CloseSession,
        9: Result,
        10: SlotsDetached,
        11: Failure,
        12: StatsRequest,
        13: Stats,
        14: Goodbye,
        15: OpenSession,
        16: Advance,
        17: Place,
        18: NotPlaced,
        19: LoopReport,
        20: ReadBatch,
        21: BatchRead,
        22: Computed,
        23: DatasetWorkers,
        24: PipelineThreads,
    },
    trusted=(Advance, CloseSession, Fetch, OpenSession, Release, Result),
)


def check_versions(*, server: int, client: int, name: str) -> None:
    """Check that a server and its client speak the same version of the protocol.

    Args:
        server: version of the server.
        client: version of the client.
        name: name of the client in the error.

    Raises:
        ProtocolError: they don't.
    """
    if server != client:
        raise ProtocolError(
            f"the server speaks version {server} of the protocol, {name} {client}: use the same release of dali-proxy"
        )
