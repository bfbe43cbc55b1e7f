"""The graphs. Each has one definition, which both libraries run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.graphs import data
from benchmarks.workload import CROP_AREA, IMAGE_SIZE, MEAN, STD

SIZE = (IMAGE_SIZE, IMAGE_SIZE)


@dataclass(frozen=True)
class Library:
    """One of the two libraries, and the setup of the pipeline.

    Attributes:
        fn: its operators.
        types: its types.
        auto_aug: its package of automatic augmentations.
        on_gpu: whether the graphs run on a GPU.
        batch_size: samples per batch.
        files: paths of the JPEGs.
    """

    fn: Any
    types: Any
    auto_aug: Any
    on_gpu: bool
    batch_size: int
    files: list[str]

    def encoded(self) -> Any:
        """Read files."""
        encoded, _ = self.fn.readers.file(files=self.files, name="reader")
        return encoded

    @property
    def decoder(self) -> str:
        """The device of decoders."""
        return "mixed" if self.on_gpu else "cpu"

    def images(self) -> Any:
        """Read and decode images."""
        return self.fn.decoders.image(self.encoded(), device=self.decoder)

    def source(self, samples: list[data.Array], layout: str | None = None) -> Any:
        """Repeat a batch of samples from memory, on the CPU."""
        return self.fn.external_source(source=data.repeat(samples, self.batch_size), layout=layout)

    def upload(self, samples: Any) -> Any:
        """Move samples to the device of the graph."""
        return samples.gpu() if self.on_gpu else samples

    def uniform(self, low: float, high: float) -> Any:
        """Draw a number for each sample."""
        return self.fn.random.uniform(range=(low, high))

    def crop(self, images: Any, size: int = IMAGE_SIZE, area: tuple[float, float] = CROP_AREA) -> Any:
        """Resize a random window."""
        return self.fn.random_resized_crop(images, size=(size, size), random_area=area)

    def twist(self, images: Any) -> Any:
        """Change colors."""
        low, high = 0.6, 1.4
        return self.fn.color_twist(
            images,
            brightness=self.uniform(low, high),
            contrast=self.uniform(low, high),
            saturation=self.uniform(low, high),
            hue=self.uniform(-20, 20),
        )

    def normalize(self, images: Any, layout: str = "CHW", **options: Any) -> Any:
        """Convert images to normalized floats, mirrored half of the time."""
        options.setdefault("mirror", self.fn.random.coin_flip())
        return self.fn.crop_mirror_normalize(
            images, dtype=self.types.FLOAT, output_layout=layout, mean=MEAN, std=STD, **options
        )


def decode_window(lib: Library) -> Any:
    images = lib.fn.decoders.image_random_crop(lib.encoded(), device=lib.decoder, random_area=CROP_AREA)
    return lib.normalize(lib.fn.resize(images, size=SIZE))


def resize_shorter(lib: Library) -> Any:
    return lib.normalize(lib.fn.resize(lib.images(), resize_shorter=256), crop=SIZE)


def imagenet(lib: Library) -> Any:
    images = lib.fn.flip(lib.crop(lib.images()), horizontal=lib.fn.random.coin_flip())
    return lib.normalize(lib.twist(images), mirror=0)


def simclr(lib: Library) -> Any:
    images = lib.images()
    return tuple(_blurred_view(lib, images) for _ in range(2))


def dino(lib: Library) -> Any:
    images = lib.images()
    large = [_blurred_view(lib, images, (0.4, 1.0)) for _ in range(2)]
    small = [lib.normalize(lib.twist(lib.crop(images, 96, (0.05, 0.4)))) for _ in range(8)]
    return (*large, *small)


def _blurred_view(lib: Library, images: Any, area: tuple[float, float] = CROP_AREA) -> Any:
    view = lib.twist(lib.crop(images, area=area))
    return lib.normalize(lib.fn.gaussian_blur(view, sigma=lib.uniform(0.1, 2.0)))


def mask(lib: Library) -> Any:
    fn, types, encoded = lib.fn, lib.types, lib.encoded()
    images = fn.decoders.image(encoded, device=lib.decoder)
    masks = fn.decoders.image(encoded, device=lib.decoder, output_type=types.GRAY)
    angle, mirror = lib.uniform(-15, 15), fn.random.coin_flip()
    images = fn.resize(fn.rotate(images, angle=angle, keep_size=True, fill_value=0), size=SIZE)
    images = fn.brightness_contrast(images, brightness=lib.uniform(0.8, 1.2), contrast=lib.uniform(0.8, 1.2))
    nearest = types.INTERP_NN
    masks = fn.rotate(masks, angle=angle, keep_size=True, fill_value=0, interp_type=nearest)
    masks = fn.flip(fn.resize(masks, size=SIZE, interp_type=nearest), horizontal=mirror)
    return lib.normalize(images, mirror=mirror), fn.cast(masks, dtype=types.INT64)


def paste(lib: Library) -> Any:
    position = {"paste_x": lib.uniform(0, 1), "paste_y": lib.uniform(0, 1)}
    images = lib.fn.paste(lib.twist(lib.images()), ratio=lib.uniform(1, 2), fill_value=(124, 116, 104), **position)
    return lib.normalize(lib.fn.resize(images, size=SIZE))


def trivial_augment(lib: Library) -> Any:
    return lib.normalize(lib.auto_aug.trivial_augment.trivial_augment_wide(lib.crop(lib.images()), shape=SIZE))


def rand_augment(lib: Library) -> Any:
    return lib.normalize(lib.auto_aug.rand_augment.rand_augment(lib.crop(lib.images()), n=2, m=9, shape=SIZE))


def auto_augment(lib: Library) -> Any:
    return lib.normalize(lib.auto_aug.auto_augment.auto_augment_image_net(lib.crop(lib.images()), shape=SIZE))


def small(lib: Library) -> Any:
    return lib.upload(lib.fn.random.uniform(range=(-1.0, 1.0), shape=16)) * 2 + 1, lib.fn.random.coin_flip()


def volume(lib: Library) -> Any:
    fn, flip = lib.fn, lib.fn.random.coin_flip
    volumes = lib.upload(lib.source(data.volumes(), "CDHW"))
    position = {f"crop_pos_{axis}": lib.uniform(0, 1) for axis in "xyz"}
    volumes = fn.crop(volumes, crop=(48, 48, 48), **position)
    volumes = fn.flip(volumes, horizontal=flip(), vertical=flip(), depthwise=flip())
    volumes = fn.gaussian_blur(volumes, sigma=lib.uniform(0.5, 1.0))
    return fn.normalize(fn.noise.gaussian(volumes, stddev=0.1))


def detection(lib: Library) -> Any:
    fn = lib.fn
    anchor, shape, boxes, classes = fn.random_bbox_crop(
        lib.source(data.boxes()), lib.source(data.classes()), bbox_layout="xyXY", thresholds=[0.0, 0.1, 0.3, 0.5],
        aspect_ratio=[0.5, 2.0], scaling=[0.3, 1.0], allow_no_crop=True, num_attempts=10,
    )  # fmt: skip
    mirror = fn.random.coin_flip()
    images = fn.slice(lib.images(), anchor, shape)
    images = lib.normalize(fn.resize(images, size=(300, 300)), mirror=mirror)
    return images, lib.upload(fn.bb_flip(boxes, ltrb=True, horizontal=mirror)), lib.upload(classes)


def mix(lib: Library) -> Any:
    images = lib.normalize(lib.crop(lib.images()))
    others = lib.fn.permute_batch(images, indices=lib.fn.batch_permutation())
    weight = lib.upload(lib.uniform(0, 1))
    return images * weight + others * (1 - weight)


def clips(lib: Library) -> Any:
    return lib.normalize(lib.crop(lib.upload(lib.source(data.clips(), "FHWC")), 112), "CFHW")


@dataclass(frozen=True)
class Graph:
    """One graph.

    Attributes:
        describe: function that describes the graph, and returns its outputs.
        title: the operators behind the decoder, or a name.
        conditional: whether it needs conditional execution.
    """

    describe: Callable[[Library], Any]
    title: str
    conditional: bool = False


GRAPHS = {
    graph.describe.__name__: graph
    for graph in (
        Graph(decode_window, "decode window, resize, normalize"),
        Graph(resize_shorter, "resize shorter side, normalize"),
        Graph(imagenet, "random crop, flip, colors, normalize"),
        Graph(simclr, "SimCLR: two views with colors and blur"),
        Graph(mask, "image and mask: rotate, resize, colors"),
        Graph(paste, "colors, paste, resize, normalize"),
        Graph(trivial_augment, "random crop, TrivialAugment", conditional=True),
        Graph(rand_augment, "random crop, RandAugment, n = 2", conditional=True),
        Graph(auto_augment, "random crop, AutoAugment", conditional=True),
        Graph(small, "small: 16 random numbers * 2 + 1"),
        Graph(volume, "3D volume: crop, flip, blur, noise, normalize"),
        Graph(detection, "detection: crop by boxes, resize, flip"),
        Graph(dino, "DINO: two large views, eight small ones"),
        Graph(mix, "mix samples: permute_batch, arithmetic"),
        Graph(clips, "16 frames: one random crop, normalize"),
    )
}
