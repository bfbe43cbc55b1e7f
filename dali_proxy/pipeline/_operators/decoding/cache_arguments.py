"""The arguments of decoders on the GPU that describe a cache in the GPU's memory."""

from __future__ import annotations

from dali_proxy.pipeline._declaration import Argument, Kind

CACHE_ARGUMENTS = (
    Argument(
        "cache_size",
        Kind.INT,
        "With device='mixed': megabytes of the GPU's memory in which results are kept for later epochs, with the same "
        "bits. All decoders of the process with the same size, threshold and type share it.",
        0,
    ),
    Argument("cache_threshold", Kind.INT, "Size in bytes that a result must exceed to be kept.", 0),
    Argument(
        "cache_type",
        Kind.STRING,
        "Which results are kept: with 'threshold', the default, those larger than `cache_threshold`, until the cache "
        "is full; with 'largest', the largest of the first epoch that fit. They are stored in the second epoch.",
        "",
        choices=("", "threshold", "largest"),
    ),
    Argument("cache_debug", Kind.BOOL, "Log what the cache has done when the pipeline is closed.", False),
    Argument(
        "cache_batch_copy", Kind.BOOL, "Copy the kept results of a batch at once, instead of one after another.", True
    ),
)
