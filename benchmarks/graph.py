"""The pipelines that both NVIDIA DALI and we run. Their ``fn`` is the same API, so one definition serves both."""

from __future__ import annotations

from typing import Any

from benchmarks.workload import ARRAY_SHAPES, CROP_AREA, CROP_ASPECT_RATIO, DECODED_KINDS, IMAGE_SIZE, MEAN, STD, Setup

# Without explicit seeds, numbers depend on the operator's position in the graph, and a GPU needs more of them.
WINDOW = {"random_area": CROP_AREA, "random_aspect_ratio": CROP_ASPECT_RATIO, "seed": 1}
MIRROR = {"seed": 2}
DTYPES = {"float32": "FLOAT", "float16": "FLOAT16"}


def make_pipeline(library: Any, setup: Setup, **options: Any) -> Any:
    """Create the pipeline of a kind of input.

    Args:
        library: The module ``nvidia.dali``, or our ``pipeline``.
        setup: Kind, batch size, threads and device.
        options: Further arguments of the pipeline.

    Returns:
        A pipeline of that library, not built yet, with one input and one output.
    """
    fn = library.fn
    size = _size(library)

    def crop_decoded(images: Any) -> Any:
        if setup.device_id is not None:
            images = images.gpu()
        if hasattr(fn, "random_resized_crop"):  # one step, and 10 % faster in DALI
            return fn.random_resized_crop(images, **size, **WINDOW)
        anchor, shape = fn.random_crop_generator(images.shape(), **WINDOW)
        return fn.resize(fn.slice(images, anchor, shape, axes=(0, 1)), **size)

    @library.pipeline_def
    def graph() -> Any:
        images = fn.external_source(name="images", no_copy=True)
        if setup.kind in ARRAY_SHAPES:
            return images
        if setup.kind in DECODED_KINDS:
            return _normalize(library, crop_decoded(images), setup)
        if setup.kind == "paths":
            images = fn.io.file.read(images)
        return _normalize(library, _decode(library, images, setup), setup)

    return graph(**_arguments(setup), **options)


def make_reader_pipeline(library: Any, setup: Setup) -> Any:
    """Create the pipeline that reads the files itself.

    Args:
        library: The module ``nvidia.dali``, or our ``pipeline``.
        setup: Folder, batch size, threads and device.

    Returns:
        A pipeline of that library, not built yet, whose outputs are the images and the indices of their files.
    """
    files = setup.files
    part, parts = setup.shard

    @library.pipeline_def
    def graph() -> Any:
        encoded, labels = library.fn.readers.file(
            files=files, labels=list(range(len(files))), shard_id=part, num_shards=parts
        )
        if setup.device_id is not None:
            labels = labels.gpu()
        return _normalize(library, _decode(library, encoded, setup), setup), labels

    return graph(**_arguments(setup))


def _decode(library: Any, encoded: Any, setup: Setup) -> Any:
    decoder = "cpu" if setup.device_id is None else "mixed"
    images = library.fn.decoders.image_random_crop(encoded, device=decoder, **WINDOW)
    return library.fn.resize(images, **_size(library))


def _normalize(library: Any, images: Any, setup: Setup) -> Any:
    fn = library.fn
    dtype = getattr(library.types, DTYPES[setup.dtype])
    mirror = fn.random.coin_flip(**MIRROR)
    return fn.crop_mirror_normalize(images, dtype=dtype, output_layout=setup.layout, mean=MEAN, std=STD, mirror=mirror)


def _size(library: Any) -> dict[str, Any]:
    return {"size": (IMAGE_SIZE, IMAGE_SIZE), "interp_type": library.types.INTERP_LINEAR}


def _arguments(setup: Setup) -> dict[str, Any]:
    return {
        "batch_size": setup.batch_size, "num_threads": setup.threads, "device_id": setup.device_id, "seed": 0,
    }  # fmt: skip
