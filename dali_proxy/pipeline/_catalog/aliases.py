"""Deprecated names of operators, as in NVIDIA DALI."""

from __future__ import annotations

from dataclasses import replace

from dali_proxy.pipeline._declaration.registry import lookup, register

#: Names of operators by their deprecated names.
ALIASES = {
    "audio_decoder": "decoders.audio",
    "caffe2_reader": "readers.caffe2",
    "caffe_reader": "readers.caffe",
    "coco_reader": "readers.coco",
    "coin_flip": "random.coin_flip",
    "experimental.debayer": "debayer",
    "experimental.audio_resample": "audio_resample",
    "experimental.decoders.image": "decoders.image",
    "experimental.decoders.image_crop": "decoders.image_crop",
    "experimental.decoders.image_random_crop": "decoders.image_random_crop",
    "experimental.decoders.image_slice": "decoders.image_slice",
    "experimental.decoders.video": "decoders.video",
    "experimental.equalize": "equalize",
    "experimental.filter": "filter",
    "experimental.inflate": "decoders.inflate",
    "experimental.optical_flow": "optical_flow",
    "experimental.peek_image_shape": "peek_image_shape",
    "experimental.tensor_resize": "tensor_resize",
    "file_reader": "readers.file",
    "image_decoder": "decoders.image",
    "image_decoder_crop": "decoders.image_crop",
    "image_decoder_random_crop": "decoders.image_random_crop",
    "image_decoder_slice": "decoders.image_slice",
    "mxnet_reader": "readers.mxnet",
    "nemo_asr_reader": "readers.nemo_asr",
    "normal_distribution": "random.normal",
    "numpy_reader": "readers.numpy",
    "sequence_reader": "readers.sequence",
    "tfrecord_reader": "readers.tfrecord",
    "transform_translation": "transforms.translation",
    "uniform": "random.uniform",
    "video_reader": "readers.video",
    "video_reader_resize": "readers.video_resize",
}


def register_aliases() -> None:
    """Add the deprecated names to the registry. The operators must already be registered."""
    for name, target in ALIASES.items():
        doc, deprecated = f"Deprecated name of `fn.{target}`.", f" Use `nvidia.dali.fn.{target}` instead."
        register(replace(lookup(target), name=name, doc=doc, function=None, alias_of=target, deprecated=deprecated))
