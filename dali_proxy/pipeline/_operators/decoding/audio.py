"""`decoders.audio`: signals from encoded audio files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dali_proxy.pipeline._audio.resampling import check_quality
from dali_proxy.pipeline._audio.waveform import Decoding, decode, load_decoder
from dali_proxy.pipeline._codecs.encoded import flat_bytes
from dali_proxy.pipeline._declaration import Argument, Input, Kind, Role, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_dtype import check_dtype
from dali_proxy.pipeline._operator_api.output_specs import describe
from dali_proxy.pipeline._operators.audio.audio_resample import ANTIALIAS, QUALITY
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import FLOAT, DALIDataType

_DTYPES = (DALIDataType.INT16, DALIDataType.INT32, DALIDataType.FLOAT)
#: Arguments of all operators that decode audio, without `downmix` and `sample_rate`, whose defaults differ.
DECODING_ARGUMENTS = (
    Argument("dtype", Kind.DTYPE, "Dtype of the signals: INT16, INT32, or FLOAT from -1 to 1.", FLOAT),
    QUALITY,
    ANTIALIAS,
)

AUDIO = declare_operator(
    name="decoders.audio",
    role=Role.DECODER,
    doc="""Decodes audio files: WAV, FLAC, Ogg (Vorbis and Opus), MP3 and other formats of libsndfile.

The outputs are the signals, of shape (samples, channels), or (samples,) with `downmix`; and the sample rates in hertz,
float32 without dimensions.""",
    inputs=(Input("encoded", "Contents of audio files, 1-D uint8."),),
    arguments=(
        *DECODING_ARGUMENTS,
        Argument("downmix", Kind.BOOL, "Return the mean of the channels.", False),
        Argument(
            "sample_rate",
            Kind.FLOAT,
            "Sample rate to resample to, in hertz; by default that of the file.",
            0.0,
            per_sample=True,
        ),
    ),
    outputs=2,
)


def decoding_of(node: GraphNode) -> Decoding:
    """Return the form of decoded audio that the arguments of an operator describe.

    Raises:
        ArgumentValueError: an argument is invalid.
        BuildError: the package that decodes audio isn't installed.
    """
    load_decoder()
    argument = node.argument
    try:
        quality = check_quality(argument("quality"))
    except ValueError as error:
        raise ArgumentValueError(str(error)) from error
    return Decoding(check_dtype(argument("dtype"), _DTYPES), argument("downmix"), quality, argument("antialias"))


@implements(AUDIO, "cpu")
class AudioDecoder(SampleOperator[Array]):
    """Decodes with libsndfile. The state has the requested sample rates."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._decoding = decoding_of(node)

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[Array, Sequence[OutputSpec]]:
        rates = batch.arguments(self.node).scalars("sample_rate", np.float32)
        unknown = (None,) if self._decoding.downmix else (None, None)
        return rates, [describe("", unknown, self._decoding.dtype), describe("", (), np.dtype(np.float32))]

    def run(self, state: Array, sample: int, inputs: Sequence[Array], out: Array | None) -> tuple[Array, ...]:
        encoded = flat_bytes(inputs[0])
        wanted = float(state[sample])
        signal, rate = decode(encoded, self._decoding, wanted)
        return convert(signal, self._decoding.dtype), np.array(wanted if wanted > 0 else rate, np.float32)
