# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.fn.inputs`."""

from builtins import bool as _bool
from typing import Literal
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, Int
from dali_proxy.pipeline._graph.nodes import DataNode


__all__ = ['video']

def video(
    *, affine: _bool | None = None, blocking: _bool = False,
    last_sequence_policy: Literal['partial', 'pad'] = 'partial', no_copy: _bool = False, sequence_length: Int,
    **common: Unpack[Common],
) -> DataNode:
    """Decodes a video in batches of sequences, to FHWC. Feed the video with `Pipeline.feed_input`.

    Feed one encoded video, as a batch of one sample. Each run returns the next `batch_size` sequences, and the last run the
    remaining ones. Then the next fed video follows. Unlike with `fn.decoders.video`, a long video is never in memory as a
    whole.

    Devices: cpu, mixed.

    Args:
        affine (bool, default None): Accepted for compatibility; see `set_affinity` of the pipeline.
        blocking (bool, default False): Wait until another thread feeds data.
        last_sequence_policy (str, default 'partial'): Last sequence of a video: shorter with 'partial', filled up with black frames with 'pad'.
        no_copy (bool, default False): Read the fed memory in place; it must not change until then.
        sequence_length (int): Number of frames of a sequence.
        device (str): device of the operator; by default that of its inputs.
    """

