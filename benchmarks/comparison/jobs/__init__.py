"""All jobs. To add one, write its file and name it here."""

from __future__ import annotations

from benchmarks.comparison.job import Job
from benchmarks.comparison.jobs.arrays import SmallArrays
from benchmarks.comparison.jobs.audio import Mel
from benchmarks.comparison.jobs.detection import Detection
from benchmarks.comparison.jobs.function import OwnFunction
from benchmarks.comparison.jobs.images import Images
from benchmarks.comparison.jobs.segmentation import Segmentation
from benchmarks.comparison.jobs.shards import Shards
from benchmarks.comparison.jobs.videos import Videos
from benchmarks.comparison.jobs.views import Views

SMALL = (400, 640), 256
"""Widths and number of the small images."""

_ALL: tuple[Job, ...] = (
    Images("jpeg-small", "JPEGs of 60 KB, classification", *SMALL),
    Images("jpeg-large", "JPEGs of 3 megapixels, classification", (1800, 2200), 32, batch_size=32),
    Views("views", "JPEGs, two views as in SimCLR", *SMALL),
    Detection("detection", "JPEGs with boxes, detection", *SMALL),
    Segmentation("segmentation", "JPEGs with PNG masks, segmentation", *SMALL),
    Mel(),
    Videos("clips", "videos: clips of 16 frames", 16, following=True),
    Videos("frames", "videos: 4 frames at random", 4, following=False),
    OwnFunction("function", "JPEGs and an own Python function", *SMALL),
    SmallArrays(),
    Shards("shards", "JPEGs of 60 KB in files or shards", *SMALL, length=1024, seconds=2.0),
    Images("short-epochs", "JPEGs of 60 KB, epochs of 2,048 samples", *SMALL, length=2048, seconds=3.0),
)

JOBS: dict[str, Job] = {job.name: job for job in _ALL}
