"""Settings and results of the demo."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dali_proxy._demo.compare import Comparison
from dali_proxy._demo.data import Crops
from dali_proxy._demo.train import Training


@dataclass(frozen=True)
class Settings:
    """Settings of the demo.

    Attributes:
        device: ``"cpu"``, ``"cuda:0"`` (or another number), or ``"auto"`` for a GPU if one can be used, else the CPU.
        data: Folder of images. The demo uses its ``train/`` and ``held_out/``, or writes them if they are missing.
            None means a temporary folder.
        keep: Whether to keep a temporary folder at the end.
        picture: Path for the image of an augmented batch.
        crops: Numbers of images to write.
        epochs: Number of passes over the images.
        batch_size: Number of images in a batch.
        num_workers: Number of dataset worker processes.
        rounds: Number of pairs of measurements in the comparison.
        seconds: Length of one measurement.
        seed: Seed of the network, the shuffling and the augmentation.
        quiet: Whether to omit the progress bars; outside of a terminal there are none.
    """

    device: str = "auto"
    data: Path | None = None
    keep: bool = False
    picture: Path = Path("dali-proxy-demo.png")
    crops: Crops = field(default_factory=Crops)
    epochs: int = 12
    batch_size: int = 32
    num_workers: int = 2
    rounds: int = 3
    seconds: float = 3.0
    seed: int = 0
    quiet: bool = False


@dataclass(frozen=True)
class Summary:
    """Results of the demo.

    Attributes:
        accuracy: Fraction of the held-out images that were classified correctly, 0 to 1.
        chance: Accuracy of guessing.
        training: Measurements of the training.
        limited_by: The part that limited the speed of training, from the server's statistics: ``"training"``,
            ``"pipeline"`` or ``"workers"``.
        comparison: Throughput compared with a plain DataLoader.
        picture: Path of the saved image of a batch.
        seconds: Duration of the demo.
    """

    accuracy: float
    chance: float
    training: Training
    limited_by: str
    comparison: Comparison
    picture: Path
    seconds: float
