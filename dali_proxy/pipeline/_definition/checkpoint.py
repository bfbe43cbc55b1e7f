"""Checkpoints: the position of a running pipeline, as bytes. Reading them runs no code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field

import msgpack

from dali_proxy.pipeline._definition.running import Position
from dali_proxy.pipeline._operator_api.reader import ReaderPosition
from dali_proxy.pipeline.errors import SerializationError

MAGIC = b"dali-proxy checkpoint\n"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """The state with which a pipeline resumes exactly where another one was.

    Attributes:
        seed: seed of the random numbers, which depend on it and on the position.
        position: the next batch, and the positions of sources and readers.
        notes: numbers that the caller stores, such as the position of an iterator in its epoch.
    """

    seed: int
    position: Position
    notes: Mapping[str, int] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the checkpoint as bytes, for `from_bytes`."""
        content = {
            "version": FORMAT_VERSION,
            "seed": self.seed,
            "epoch": self.position.epoch,
            "iteration": self.position.iteration,
            "sources": self.position.sources or {},
            "readers": {name: astuple(at) for name, at in (self.position.readers or {}).items()},
            "notes": dict(self.notes),
        }
        return MAGIC + bytes(msgpack.packb(content))

    @classmethod
    def from_bytes(cls, data: bytes) -> Checkpoint:
        """Read the bytes that `to_bytes` returned.

        Raises:
            SerializationError: the bytes aren't a checkpoint, or one of a different version.
        """
        if not isinstance(data, bytes | bytearray) or not data.startswith(MAGIC):
            raise SerializationError("this isn't a checkpoint of dali-proxy")
        try:
            content = msgpack.unpackb(data[len(MAGIC) :])
            if content["version"] != FORMAT_VERSION:
                raise SerializationError(
                    f"the checkpoint has format {content['version']}, but this version reads {FORMAT_VERSION}"
                )
            sources = {str(name): int(count) for name, count in content["sources"].items()}
            readers = {str(name): ReaderPosition(*map(int, at)) for name, at in content["readers"].items()}
            position = Position(int(content["epoch"]), int(content["iteration"]), sources, readers)
            notes = {str(name): int(value) for name, value in content.get("notes", {}).items()}
            return cls(int(content["seed"]), position, notes)
        except SerializationError:
            raise
        except Exception as error:
            raise SerializationError(f"the checkpoint is damaged: {type(error).__name__}: {error}") from error
