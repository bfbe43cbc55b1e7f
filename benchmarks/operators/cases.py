"""Calls of each operator: inputs and arguments. Batches have `data.BATCH` samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Type:
    """A member of `types`, by name: each library has separate objects."""

    name: str


@dataclass(frozen=True)
class PerSample:
    """An argument with one value per sample: the name of its data."""

    data: str


@dataclass(frozen=True)
class Case:
    """One call of one operator.

    Attributes:
        operator: its name in `fn`.
        inputs: names of the data, and numbers that are passed unchanged.
        arguments: numbers, strings (``{folder}`` stands for the folder with files), `Type` and `PerSample`.
        variant: distinction between several cases of one operator.
        on_cpu: inputs that stay on the CPU if the operator runs on the GPU.
        random: whether contents and shapes may differ between libraries.
        devices: devices on which to measure, if the operator runs there.
    """

    operator: str
    inputs: tuple[str | int, ...] = ()
    arguments: dict[str, Any] = field(default_factory=dict)
    variant: str = ""
    on_cpu: tuple[int, ...] = ()
    random: bool = False
    devices: tuple[str, ...] = ("cpu", "gpu")

    @property
    def name(self) -> str:
        """The operator and the variant."""
        return f"{self.operator} {self.variant}".strip()


_SPECIAL = ("variant", "on_cpu", "random", "devices")


def _case(operator: str, *inputs: str | int, **options: Any) -> Case:
    special = {name: options.pop(name) for name in _SPECIAL if name in options}
    return Case(operator, inputs, options, **special)


def mirror(sample: Any) -> Any:
    """Mirror a sample: the callback of python_function."""
    return sample[:, ::-1]


def same(samples: Any) -> Any:
    """Return the samples unchanged: the callback of dl_tensor_python_function."""
    return samples


FLOAT = Type("FLOAT")
WINDOW = (224, 224)
FACTOR, ANGLE, FLAG = PerSample("factors"), PerSample("angles"), PerSample("flags")
MEAN, STD = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]
ANCHORS = [edge for x in range(20) for y in range(20) for edge in (x / 20, y / 20, x / 20 + 0.1, y / 20 + 0.1)]
PERSPECTIVE = [1.1, 0.1, -20.0, 0.05, 0.9, 10.0, 0.0002, -0.0001, 1.0]
_ARCHIVE = {"paths": ["{folder}/archive.tar"], "index_paths": ["{folder}/archive.idx"], "ext": ["jpg", "cls"]}
_REDUCTIONS = ("max", "mean", "mean_square", "min", "rms", "sum")

CASES: tuple[Case, ...] = (
    _case("external_source", "images"),
    _case("audio_resample", "signals", in_rate=16_000.0, out_rate=22_050.0),
    _case("batch_permutation", random=True),
    _case("bb_flip", "boxes", horizontal=FLAG, ltrb=True),
    _case("brightness", "images", brightness=FACTOR),
    _case("brightness_contrast", "images", brightness=FACTOR, contrast=FACTOR),
    _case("cast", "images", dtype=FLOAT, variant="uint8 to float"),
    _case("cast", "planes", dtype=Type("UINT8"), variant="float to uint8"),
    _case("cast_like", "images", "vectors"),
    _case("cat", "thumbnails", "thumbnails", axis=1),
    _case("color_space_conversion", "images", image_type=Type("RGB"), output_type=Type("YCbCr")),
    _case("color_space_conversion", "images", image_type=Type("RGB"), output_type=Type("GRAY"), variant="to grey"),
    _case("color_twist", "images", hue=ANGLE, saturation=FACTOR, brightness=FACTOR, contrast=FACTOR),
    _case("constant", fdata=[1.0, 2.0, 3.0]),
    _case("contrast", "images", contrast=FACTOR),
    _case("coord_flip", "points", flip_x=FLAG),
    _case("coord_transform", "points", MT=PerSample("matrices")),
    _case("copy", "images"),
    _case("crop", "images", crop=WINDOW),
    _case("crop_mirror_normalize", "images", crop=WINDOW, mirror=FLAG, mean=MEAN, std=STD, dtype=FLOAT),
    _case("decoders.audio", "flacs"),
    _case("decoders.image", "jpegs", variant="JPEG"),
    _case("decoders.image", "pngs", variant="PNG", devices=("cpu",)),
    _case("decoders.image_crop", "jpegs", crop=WINDOW),
    _case("decoders.image_random_crop", "jpegs", random=True),
    _case("decoders.image_slice", "jpegs", rel_start=PerSample("anchors"), rel_shape=PerSample("extents")),
    _case("decoders.numpy", "npys"),
    _case("dl_tensor_python_function", "planes", function=same, devices=("cpu",)),
    _case("element_extract", "clips", element_map=[0, 3]),
    _case("equalize", "images"),
    _case("erase", "images", anchor=PerSample("anchors"), shape=PerSample("extents"), normalized=True),
    _case("expand_dims", "images", axes=[0]),
    _case("filter", "thumbnails", "kernels", dtype=FLOAT),
    _case("fast_resize_crop_mirror", "images", resize_shorter=256, crop=WINDOW, mirror=FLAG),
    _case("flip", "images", horizontal=FLAG, vertical=FLAG),
    _case("full", "vectors", shape=(10, 1000)),
    _case("full_like", "vectors", "labels"),
    _case("gaussian_blur", "thumbnails", sigma=FACTOR, variant="sigma"),
    _case("gaussian_blur", "thumbnails", window_size=9, variant="window 9"),
    _case("get_property", "images", key="layout"),
    _case("hsv", "images", hue=ANGLE, saturation=FACTOR, value=FACTOR),
    _case("hue", "images", hue=ANGLE),
    _case("io.file.read", "paths"),
    _case("jitter", "images", random=True, devices=("gpu",)),
    _case("jpeg_compression_distortion", "thumbnails", quality=60),
    _case("lookup_table", "tokens", keys=list(range(100)), values=[float(key) for key in range(100)]),
    _case("mel_filter_bank", "spectra", sample_rate=16_000.0),
    _case("mfcc", "spectra"),
    _case("noise.gaussian", "thumbnails", stddev=10.0, random=True),
    _case("noise.salt_and_pepper", "thumbnails", random=True),
    _case("noise.shot", "stamps", factor=10.0, random=True),
    _case("nonsilent_region", "signals"),
    _case("normalize", "planes", axes=[1, 2], variant="planes"),
    _case("normalize", "images", mean=120.0, stddev=50.0, variant="numbers"),
    _case("normalize", "vectors", variant="vectors"),
    _case("one_hot", "labels", num_classes=1000),
    _case("ones", shape=(100, 100)),
    _case("ones_like", "vectors"),
    _case("pad", "ragged", axes=[0, 1], shape=[480, 640]),
    _case("paste", "thumbnails", ratio=1.5, paste_x=0.3, paste_y=0.6, fill_value=[1, 2, 3]),
    _case("peek_image_shape", "jpegs"),
    _case("permute_batch", "images", indices=PerSample("order")),
    _case("power_spectrum", "signals"),
    _case("preemphasis_filter", "signals"),
    _case("python_function", "thumbnails", function=mirror, devices=("cpu",)),
    _case("random.beta", alpha=2.0, beta=3.0, shape=[1000], random=True),
    _case("random.choice", 100, shape=[1000], random=True),
    _case("random.coin_flip", random=True),
    _case("random.normal", shape=[100, 100], random=True, variant="matrices"),
    _case("random.normal", random=True, variant="numbers"),
    _case("random.uniform", range=[-1.0, 1.0], shape=[100, 100], random=True, variant="matrices"),
    _case("random.uniform", range=[-1.0, 1.0], random=True, variant="numbers"),
    _case("random_bbox_crop", "boxes", thresholds=[0.0, 0.3, 0.5], aspect_ratio=[0.5, 2.0], scaling=[0.3, 1.0],
          random=True),
    _case("random_crop_generator", "small_shapes", random=True),
    _case("random_resized_crop", "images", size=WINDOW, random=True),
    _case("readers.coco", file_root="{folder}/files", annotations_file="{folder}/coco.json", ratio=True, ltrb=True),
    _case("readers.file", file_root="{folder}/files"),
    _case("readers.numpy", file_root="{folder}/arrays"),
    _case("readers.sequence", file_root="{folder}/sequences", sequence_length=4),
    _case("readers.webdataset", **_ARCHIVE),
    _case("readers.webdataset", **_ARCHIVE, dont_use_mmap=True, variant="read by both"),
    *(_case(f"reductions.{name}", "planes", axes=[1, 2]) for name in _REDUCTIONS),
    *(_case(f"reductions.{name}", "planes", "means", axes=[1, 2]) for name in ("std_dev", "variance")),
    _case("reductions.sum", "images", variant="of all bytes"),
    _case("reinterpret", "images", shape=[-1]),
    _case("reshape", "images", shape=[-1, 3]),
    _case("resize", "images", size=WINDOW, variant="linear, antialiased"),
    _case("resize", "images", size=WINDOW, antialias=False, variant="linear"),
    _case("resize", "images", size=WINDOW, interp_type=Type("INTERP_NN"), variant="nearest"),
    _case("resize", "images", size=WINDOW, interp_type=Type("INTERP_CUBIC"), variant="cubic"),
    _case("resize", "images", size=WINDOW, interp_type=Type("INTERP_LANCZOS3"), variant="Lanczos"),
    _case("resize", "thumbnails", size=(480, 640), variant="linear, twice as large"),
    _case("resize_crop_mirror", "images", resize_shorter=256, crop=WINDOW, mirror=FLAG),
    _case("rotate", "images", angle=ANGLE, keep_size=True, variant="linear"),
    _case("rotate", "images", angle=ANGLE, keep_size=True, interp_type=Type("INTERP_NN"), variant="nearest"),
    _case("saturation", "images", saturation=FACTOR),
    _case("shapes", "images"),
    _case("slice", "images", rel_start=PerSample("anchors"), rel_shape=PerSample("extents"), axes=[0, 1]),
    _case("spectrogram", "signals", nfft=512, window_length=400, window_step=160),
    _case("squeeze", "greys", axes=[2]),
    _case("stack", "thumbnails", "thumbnails"),
    _case("to_decibels", "spectra"),
    _case("transforms.combine", "matrices", "matrices"),
    _case("transforms.crop", from_start=[0.0, 0.0], from_end=[1.0, 1.0], to_start=[0.2, 0.2], to_end=[0.8, 0.8]),
    _case("transforms.rotation", angle=ANGLE),
    _case("transforms.scale", scale=PerSample("extents")),
    _case("transforms.shear", shear=PerSample("extents")),
    _case("transforms.translation", offset=PerSample("offsets")),
    _case("transpose", "images", perm=[2, 0, 1]),
    _case("warp_affine", "images", matrix=PerSample("matrices"), variant="linear"),
    _case("warp_affine", "images", matrix=PerSample("matrices"), interp_type=Type("INTERP_NN"), variant="nearest"),
    _case("bbox_paste", "boxes", ratio=1.5, ltrb=True),
    _case("bbox_rotate", "boxes", angle=ANGLE, input_shape=(480, 640)),
    _case("box_encoder", "boxes", "class_ids", anchors=ANCHORS),
    _case("clahe", "thumbnails", tiles_x=8, tiles_y=8, clip_limit=2.0),
    _case("debayer", "mosaics", blue_position=(0, 0)),
    _case("experimental.dilate", "images", devices=("gpu",)),
    _case("experimental.erode", "images", devices=("gpu",)),
    _case("experimental.median_blur", "images", devices=("gpu",)),
    _case("experimental.remap", "images", "columns", "rows", devices=("gpu",)),
    _case("experimental.warp_perspective", "thumbnails", matrix=PERSPECTIVE),
    _case("grid_mask", "images", tile=60, angle=0.3),
    _case("laplacian", "thumbnails"),
    _case("multi_paste", "thumbnails", "thumbnails", output_size=(240, 320)),
    _case("roi_random_crop", crop_shape=(100, 100), roi_start=(50, 60), roi_end=(80, 90), random=True),
    _case("segmentation.random_mask_pixel", "images", foreground=1, random=True),
    _case("segmentation.random_object_bbox", "blobs", random=True),
    _case("segmentation.select_masks", "mask_ids", "polygons", "vertices"),
    _case("sequence_rearrange", "clips", new_order=(7, 5, 3, 1)),
    _case("sphere", "thumbnails"),
    _case("ssd_random_crop", "images", "boxes", "class_ids", random=True),
    _case("tensor_resize", "planes", sizes=(112, 112), axes=(1, 2)),
    _case("water", "thumbnails"),
    _case("zeros", shape=(100, 100)),
    _case("zeros_like", "vectors"),
)  # fmt: skip

_VIDEO = "python -m benchmarks.video measures videos"
_RECORDS = "reads records as readers.webdataset reads the members of archives"
_ON_GPU = "DALI needs a GPU, and ours runs on the CPU"

#: Operators that both libraries have and that aren't measured, with the reasons.
LEFT_OUT = {
    "decoders.inflate": _ON_GPU,
    "decoders.video": _VIDEO,
    "dump_image": "writes files",
    "experimental.resize": "the same as resize",
    "experimental.inputs.video": _VIDEO,
    "experimental.readers.fits": _ON_GPU,
    "experimental.readers.video": _VIDEO,
    "optical_flow": _ON_GPU,
    "per_frame": "marks an argument, and has no work to measure",
    "readers.caffe": _RECORDS,
    "readers.caffe2": _RECORDS,
    "readers.mxnet": _RECORDS,
    "readers.nemo_asr": "reads files as readers.file, and decodes as decoders.audio",
    "readers.tfrecord": _RECORDS,
    "readers.video": _VIDEO,
    "readers.video_resize": _VIDEO,
}
