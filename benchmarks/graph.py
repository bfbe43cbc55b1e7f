"""The pipeline that NVIDIA's proxy and ours both run. Their ``fn`` is the same API, so the definition is one."""

from __future__ import annotations

from typing import Any

from benchmarks.workload import ARRAY_SHAPES, CROP_AREA, CROP_ASPECT_RATIO, IMAGE_SIZE, MEAN, STD, Setup


def make_pipeline(library: Any, setup: Setup, **options: Any) -> Any:
    """Makes the pipeline of a kind of input.

    Args:
        library: The module ``nvidia.dali``, or our ``pipeline``.
        setup: Kind, batch size, threads and device.
        options: Further arguments of the pipeline.

    Returns:
        A pipeline of that library, not built yet, with one input and one output.
    """
    fn, types = library.fn, library.types
    decoder = "cpu" if setup.device_id is None else "mixed"
    window = {"random_area": CROP_AREA, "random_aspect_ratio": CROP_ASPECT_RATIO}
    size = {"size": (IMAGE_SIZE, IMAGE_SIZE), "interp_type": types.INTERP_LINEAR}

    def crop_decoded(images: Any) -> Any:
        if setup.device_id is not None:
            images = images.gpu()
        if hasattr(fn, "random_resized_crop"):  # one step, and 10 % faster in DALI
            return fn.random_resized_crop(images, **size, **window)
        anchor, shape = fn.random_crop_generator(images.shape(), **window)
        return fn.resize(fn.slice(images, anchor, shape, axes=(0, 1)), **size)

    @library.pipeline_def
    def graph() -> Any:
        images = fn.external_source(name="images", no_copy=True)
        if setup.kind in ARRAY_SHAPES:
            return images
        if setup.kind == "decoded":
            images = crop_decoded(images)
        else:
            if setup.kind == "paths":
                images = fn.io.file.read(images)
            images = fn.decoders.image_random_crop(images, device=decoder, **window)
            images = fn.resize(images, **size)
        return fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW", mean=MEAN, std=STD, mirror=fn.random.coin_flip()
        )

    return graph(batch_size=setup.batch_size, num_threads=setup.threads, device_id=setup.device_id, seed=0, **options)
