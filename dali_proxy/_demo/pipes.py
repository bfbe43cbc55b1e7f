"""The demo's two pipelines: random crops for training, whole images for evaluation."""

from __future__ import annotations

from dali_proxy.pipeline import DataNode, fn, pipeline_def, types

IMAGE_SIZE = 128
"""Height and width of the network's input in pixels."""

CROP_AREA = (0.25, 1.0)
CROP_ASPECT_RATIO = (3 / 4, 4 / 3)
MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
STD = (0.229 * 255, 0.224 * 255, 0.225 * 255)
"""Mean and standard deviation of red, green and blue, in units of a uint8 pixel."""


@pipeline_def
def training_pipe(decoder: str) -> DataNode:
    """Decode a random crop of each image, resize it, mirror it with probability 0.5 and normalise it.

    Args:
        decoder: Device of the decoder: ``"cpu"``, or ``"mixed"`` for the GPU.

    Returns:
        Float32 images of shape ``[3, IMAGE_SIZE, IMAGE_SIZE]``.
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
    """Decode each image, resize it as a whole and normalise it, without random numbers."""
    encoded = fn.external_source(name="images", no_copy=True)
    images = fn.decoders.image(encoded, device=decoder)
    images = fn.resize(images, size=(IMAGE_SIZE, IMAGE_SIZE), interp_type=types.INTERP_LINEAR)
    output: DataNode = fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", mean=MEAN, std=STD)
    return output
