"""All rivals. To add one, write its file and name it here."""

from __future__ import annotations

from benchmarks.comparison.rival import Rival
from benchmarks.comparison.rivals.gpu import KorniaOnGpu, TorchvisionOnGpu
from benchmarks.comparison.rivals.grain import GrainProcesses, GrainThreads
from benchmarks.comparison.rivals.nvidia import NvidiaProxy
from benchmarks.comparison.rivals.ours import Ours
from benchmarks.comparison.rivals.readers import NvidiaReader, OurReader
from benchmarks.comparison.rivals.shards import ArrayRecord, HuggingFace, LitData, Mosaic, RayData, WebDataset
from benchmarks.comparison.rivals.spdl import SpdlSubprocess, SpdlThreads
from benchmarks.comparison.rivals.tensorsocket import TensorSocket
from benchmarks.comparison.rivals.torch_loader import TorchLoader
from benchmarks.comparison.rivals.torchcodec import Torchcodec
from benchmarks.comparison.rivals.torchdata import StatefulLoader, TorchdataNodes
from benchmarks.comparison.rivals.torchvision import Torchvision

_ALL: tuple[Rival, ...] = (
    Ours(), OurReader(), NvidiaProxy(), NvidiaReader(), TorchLoader(), Torchvision(), Torchcodec(), SpdlThreads(),
    SpdlSubprocess(), GrainProcesses(), GrainThreads(), ArrayRecord(), TorchdataNodes(), StatefulLoader(), WebDataset(),
    LitData(), Mosaic(), HuggingFace(), RayData(), TensorSocket(), TorchvisionOnGpu(), KorniaOnGpu(),
)  # fmt: skip

RIVALS: dict[str, Rival] = {rival.name: rival for rival in _ALL}
