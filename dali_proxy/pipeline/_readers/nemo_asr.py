"""`readers.nemo_asr`: speech and its transcripts, from manifests of NVIDIA NeMo."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._audio.waveform import Segment, decode
from dali_proxy.pipeline._bulk.read_file import read_file
from dali_proxy.pipeline._declaration import REQUIRED, Argument, Kind, OperatorSchema
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._operator_api.operator import OutputSpec, Setup
from dali_proxy.pipeline._operators.decoding.audio import DECODING_ARGUMENTS, decoding_of
from dali_proxy.pipeline._readers.arguments import EPOCH_SHUFFLE_ARGUMENTS, READER_ARGUMENTS
from dali_proxy.pipeline._readers.data_reader import reads
from dali_proxy.pipeline._readers.loader import Loader
from dali_proxy.pipeline._remote.data_file import open_text
from dali_proxy.pipeline.errors import ArgumentValueError, BuildError, DecodeError
from dali_proxy.pipeline.tensors.cpu import Array

#: Arguments that add an output, in order, with their defaults.
_OPTIONAL = {"read_sample_rate": True, "read_text": True, "read_idxs": False}


def _outputs(arguments: Mapping[str, Any]) -> int:
    return 1 + sum(bool(arguments.get(name, default)) for name, default in _OPTIONAL.items())


@reads(
    OperatorSchema(
        name="readers.nemo_asr",
        doc="""Reads speech and its transcripts, as listed by manifests of NVIDIA NeMo.

Each line of a manifest is a JSON object with the path of an audio file as "audio_filepath", and optionally the "offset"
and the "duration" in seconds of a segment of this file, and its "text". Other lines are skipped with a warning.

The outputs are the signal, of shape (samples,), or (samples, channels) without `downmix`; the sample rate of the file,
float32 without dimensions; the text in UTF-8, 1-D uint8; and the index of the entry in its manifest, int64 of
shape (1,). Entries that `min_duration` and `max_duration` exclude aren't counted.""",
        arguments=(
            Argument("manifest_filepaths", Kind.STRINGS, "Paths of the manifests.", REQUIRED),
            Argument("read_sample_rate", Kind.BOOL, "Return sample rates.", True),
            Argument("read_text", Kind.BOOL, "Return texts.", True),
            Argument("read_idxs", Kind.BOOL, "Return indices of entries.", False),
            Argument("min_duration", Kind.FLOAT, "Shortest duration in seconds; 0 for any.", 0.0),
            Argument("max_duration", Kind.FLOAT, "Longest duration in seconds; 0 for any.", 0.0),
            Argument("downmix", Kind.BOOL, "Return the mean of the channels.", True),
            Argument(
                "sample_rate", Kind.FLOAT, "Sample rate to resample to, in hertz; by default that of the file.", -1.0
            ),
            *DECODING_ARGUMENTS,
            Argument("normalize_text", Kind.BOOL, "Deprecated and ignored."),
            *READER_ARGUMENTS,
            *EPOCH_SHUFFLE_ARGUMENTS,
        ),
        outputs=_outputs,
    )
)
class NemoAsrLoader(Loader):
    """Reads and decodes audio files."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        if not node.argument("manifest_filepaths"):
            raise ArgumentValueError("argument 'manifest_filepaths' is an empty list")
        self._decoding = decoding_of(node)
        self._optional = [bool(node.argument(name)) for name in _OPTIONAL]
        specs = (
            OutputSpec(shape=(), dtype=np.dtype(np.float32)),
            OutputSpec(dtype=np.dtype(np.uint8)),
            OutputSpec(shape=(1,), dtype=np.dtype(np.int64)),
        )
        chosen = [spec for spec, wanted in zip(specs, self._optional, strict=True) if wanted]
        self.outputs = [OutputSpec(dtype=self._decoding.dtype), *chosen]
        self._entries: list[_Entry] = []
        self._indices: list[int] = []  # position of each entry among those of its manifest

    def open(self) -> int:
        argument = self.node.argument
        paths, shortest, longest = argument("manifest_filepaths"), argument("min_duration"), argument("max_duration")
        for path in paths:
            entries = [
                entry
                for entry in _entries(path)
                if not (0 < longest < entry.segment.duration or max(0, entry.segment.duration) < shortest)
            ]
            self._entries += entries
            self._indices += range(len(entries))
        if not self._entries:
            raise BuildError(f"no audio files in {', '.join(map(repr, paths))}")
        return len(self._entries)

    def read(self, entry: int) -> tuple[Array, ...]:
        found = self._entries[entry]
        try:
            rate = self.node.argument("sample_rate")
            signal, rate = decode(read_file(found.path), self._decoding, rate, found.segment)
        except DecodeError as error:
            raise DecodeError(f"{found.path!r}: {error}") from error
        others: tuple[Array, ...] = (
            np.array(rate, np.float32),
            np.frombuffer(found.text.encode(), np.uint8),
            np.array([self._indices[entry]], np.int64),
        )
        chosen = [other for other, wanted in zip(others, self._optional, strict=True) if wanted]
        return (convert(signal, self._decoding.dtype), *chosen)

    def source_info(self, entry: int) -> str:
        return self._entries[entry].path


@dataclass(frozen=True)
class _Entry:
    """An entry of a manifest."""

    path: str
    segment: Segment
    text: str


def _entries(path: str) -> Iterator[_Entry]:
    """Yield the entries of a manifest."""
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        yield _entry(json.loads(line))
                    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
                        warnings.warn(f"skipped line {number} of the manifest {path!r}: {error!r}", stacklevel=2)
    except OSError as error:
        raise BuildError(f"can't read the manifest {path!r}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BuildError(f"the manifest {path!r} isn't UTF-8: {error}") from error


def _entry(fields: Any) -> _Entry:
    path, text = fields["audio_filepath"], fields.get("text", "")
    if not isinstance(path, str) or not isinstance(text, str):
        raise TypeError("'audio_filepath' and 'text' must be strings")
    whole = Segment()
    times = [fields.get("offset"), fields.get("duration")]
    offset, duration = (
        default if time is None else float(time)
        for time, default in zip(times, (whole.offset, whole.duration), strict=True)
    )
    if not math.isfinite(offset) or not math.isfinite(duration):
        raise ValueError("'offset' and 'duration' must be finite")
    return _Entry(path, Segment(offset, duration), text)
