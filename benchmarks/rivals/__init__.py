"""All rivals, one file each. To add one, write its file and name it here."""

from __future__ import annotations

from benchmarks.rivals.base import Rival
from benchmarks.rivals.nvidia_proxy import NvidiaProxy
from benchmarks.rivals.nvidia_reader import NvidiaReader
from benchmarks.rivals.ours import Ours
from benchmarks.rivals.torch_best import TorchBest
from benchmarks.rivals.torch_pillow import TorchPillow
from benchmarks.rivals.yardsticks import DecodeOnly, Memcpy

_ALL: tuple[Rival, ...] = (
    Ours(), NvidiaReader(), NvidiaProxy(), TorchPillow(), TorchBest(), DecodeOnly(), Memcpy(),
)  # fmt: skip

RIVALS: dict[str, Rival] = {rival.name: rival for rival in _ALL}

__all__ = ["RIVALS", "Rival"]
