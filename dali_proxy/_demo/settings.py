"""What the demo is told, and what it found out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dali_proxy._demo.compare import Comparison
from dali_proxy._demo.data import Crops
from dali_proxy._demo.train import Training


@dataclass(frozen=True)
class Settings:
    """What the demo does.

    Attributes:
        device: ``"cpu"``, ``"cuda:0"`` (or another number), or ``"auto"``: a GPU where it can be used, else
            the CPU.
        data: Folder of pictures: used as it is where it holds ``train/`` and ``held_out/``, else they are
            written there. None means a temporary folder.
        keep: Whether a temporary folder stays when the demo ends.
        picture: Where to save the picture of an augmented batch.
        crops: Which pictures to write.
        epochs: How often training goes through the pictures.
        batch_size: Pictures in one batch.
        num_workers: Dataset worker processes.
        rounds: How many pairs of measurements the comparison takes.
        seconds: Length of one measurement.
        seed: Seed of the network, the shuffling and the augmentation.
        quiet: Whether to leave the progress bars out; outside of a terminal there are none.
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
    """What the demo found out.

    Attributes:
        accuracy: Part of the held-out pictures that were told right, 0 to 1.
        chance: What guessing would reach.
        training: What training took.
        limited_by: Which part limited the speed of training: ``"training"``, ``"pipeline"`` or ``"workers"``, as
            the server's statistics tell.
        comparison: Throughput beside a plain DataLoader.
        picture: The saved picture of a batch.
        seconds: How long the demo ran.
    """

    accuracy: float
    chance: float
    training: Training
    limited_by: str
    comparison: Comparison
    picture: Path
    seconds: float
