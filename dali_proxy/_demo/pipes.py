"""The demo's two pipelines: random crops to train on, whole pictures to be judged by."""

from __future__ import annotations

from pipeline import DataNode, fn, pipeline_def, types

IMAGE_SIZE = 128
"""Height and width in pixels of what the network sees."""

CROP_AREA = (0.25, 1.0)
CROP_ASPECT_RATIO = (3 / 4, 4 / 3)
MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
STD = (0.229 * 255, 0.224 * 255, 0.225 * 255)
"""Mean and standard deviation of red, green and blue, in units of a uint8 pixel."""


@pipeline_def
def training_pipe(decoder: str) -> DataNode:
    """Decode a random part of each picture, resize it, mirror every second one and normalise it.

    Args:
        decoder: Where to decode: ``"cpu"``, or ``"mixed"`` for the GPU.

    Returns:
        Float32 pictures of shape ``[3, IMAGE_SIZE, IMAGE_SIZE]``.
    """
    encoded = fn.external_source(name="images", no_copy=True)
    images = fn.decoders.image_random_crop(
        encoded, device=decoder, random_area=CROP_AREA, random_aspect_ratio=CROP_ASPECT_RATIO
    )
    images = fn.resize(images, size=(IMAGE_SIZE, IMAGE_SIZE), interp_type=types.INTERP_LINEAR)
    output: DataNode = fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="CHW", mean=MEAN, std=STD, mirror=fn.random.coin_flip()
    )
    return output


@pipeline_def
def evaluation_pipe(decoder: str) -> DataNode:
    """Decode each picture, resize the whole of it and normalise it: nothing is random."""
    encoded = fn.external_source(name="images", no_copy=True)
    images = fn.decoders.image(encoded, device=decoder)
    images = fn.resize(images, size=(IMAGE_SIZE, IMAGE_SIZE), interp_type=types.INTERP_LINEAR)
    output: DataNode = fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", mean=MEAN, std=STD)
    return output
