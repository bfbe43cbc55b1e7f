"""Settings of a host."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Alternative:
    """Another variant of the pipeline, which a consumer may choose while the host runs.

    Attributes:
        pipeline: the pipeline, from `serialize_for_host`.
        host_stage_only: see `HostOptions`.
        device_stage: see `HostOptions`.
    """

    pipeline: bytes = field(repr=False)
    host_stage_only: bool = False
    device_stage: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class HostOptions:
    """Settings of a host.

    Attributes:
        path: path of the socket that it listens on; the directory exists and is private.
        key: secret that authenticates clients.
        server: token of this start.
        unclaimed_bytes: maximum size of unclaimed results; the oldest are dropped.
        arena_bytes_limit: maximum shared memory for the samples of one worker.
        host_stage_only: whether the pipeline is only the host stage, and consumers run the device stage.
        device_stage: the device stage from `serialize_for_host`, if the host plans its GPU work; else empty.
        alternatives: other variants of the pipeline; the host builds one when a consumer chooses it.
        device_id: GPU that the results of alternatives may lie on, or None.
        hides_gpus: whether the host's process sees no GPU. A host on a thread ignores it, and so does a server with a
            name, because other jobs may need the GPU.
        shares: whether processes may share equal batches, because data doesn't depend on the order of batches. Then
            jobs of a server with a name also share one host if their pipelines are equal.
        siblings: IDs of the other processes of the server.
    """

    path: str
    key: bytes = field(repr=False)
    server: bytes
    unclaimed_bytes: int = 2 << 30
    arena_bytes_limit: int = 1 << 40
    host_stage_only: bool = False
    device_stage: bytes = field(default=b"", repr=False)
    alternatives: tuple[Alternative, ...] = ()
    device_id: int | None = None
    hides_gpus: bool = False
    shares: bool = False
    siblings: tuple[int, ...] = ()
