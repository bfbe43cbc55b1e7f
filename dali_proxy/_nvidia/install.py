"""The import hook that resolves `nvidia.dali` to this project's modules, in child processes too."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from dali_proxy._nvidia.names import ROOT, Stand, children, find

_STARTUP = str(Path(__file__).resolve().parent / "startup")


def install_as_nvidia_dali(device: Literal["cpu", "gpu"] | None = None) -> None:
    """Make imports of `nvidia.dali` and its submodules return dali-proxy's modules instead of NVIDIA's.

    Call this before the first such import. Processes that start later do the same: this prepends the folder of a
    `sitecustomize` module to `PYTHONPATH`. Another call only sets the device. Your own module named `pipeline` keeps
    its name, unless dali-proxy's package `pipeline` was imported before.

    Args:
        device: with "cpu", all pipelines that are created later run on the CPU, even if they have a `device_id` or
            operators for a GPU. This is for machines without a GPU. Each pipeline warns once, and lists what changes.
            With "gpu", operators run on the devices that they declare. With None, the environment variable
            `DALI_PROXY_DEVICE` decides. Otherwise this function sets that variable, and processes that start later
            inherit it.

    Raises:
        ImportError: NVIDIA's package was already imported.
        ValueError: `device` isn't one of these values.

    Example:
        >>> import dali_proxy
        >>> dali_proxy.install_as_nvidia_dali()
        >>> from nvidia.dali import pipeline_def
        >>> from pipeline import pipeline_def as ours
        >>> pipeline_def is ours
        True
    """
    imported = sys.modules.get(ROOT)
    if imported is not None and not isinstance(imported, _StandIn):
        raise ImportError(
            f"{ROOT} is imported already, from {getattr(imported, '__file__', 'an unknown place')}: "
            "call dali_proxy.install_as_nvidia_dali() before that import, or start the script with `dali-proxy run`",
            name=ROOT,
        )
    if imported is None:
        _install()
    if device is not None:
        importlib.import_module("dali_proxy.pipeline._definition.cpu_only").request_device(device)


def _install() -> None:
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _have_parent()
    inherited = os.environ.get("PYTHONPATH", "")
    if _STARTUP not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in (_STARTUP, inherited) if path)
    importlib.import_module(ROOT)


def _have_parent() -> None:
    """Create the parent package if no package of NVIDIA's is installed."""
    parent = ROOT.partition(".")[0]
    try:
        importlib.import_module(parent)
    except ModuleNotFoundError:
        package = ModuleType(parent)
        package.__path__ = []
        sys.modules[parent] = package


class _Finder(MetaPathFinder, Loader):
    """Finds and creates the modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != ROOT and not fullname.startswith(f"{ROOT}."):
            return None
        stand = find(fullname)
        if stand is None:
            # Without `name=`: with it, `from ... import` would replace this message by Python's own.
            raise ModuleNotFoundError(f"No module named {fullname!r}: dali-proxy doesn't implement it yet")
        return ModuleSpec(fullname, self, origin=stand.module or None, is_package=True, loader_state=stand)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name, spec.loader_state)

    def exec_module(self, module: ModuleType) -> None:
        """Import the submodules. Attributes are resolved on first use, so that torch isn't imported without need."""
        assert isinstance(module, _StandIn)
        for child in children(module.__name__):
            stand = importlib.import_module(f"{module.__name__}.{child}")
            if module.stands_for_all_of(stand):
                delattr(module, child)  # a function of the same name, such as `functional.resize`, hides the module


class _StandIn(ModuleType):
    """A module whose names refer to modules of this project."""

    stands_for_dali_proxy = True

    def __init__(self, name: str, stand: Stand) -> None:
        super().__init__(name)
        self.__file__ = __file__
        self._stand = stand

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return self._names()
        found: Any = None
        try:
            found = self._stand.load(name)
        except AttributeError:
            pass
        else:
            if not isinstance(found, ModuleType):
                return found
        inner = f"{self.__name__}.{name}"
        if not name.startswith("__") and find(inner) is not None:  # as `nvidia.dali.types` after `import nvidia.dali`
            return importlib.import_module(inner)
        if found is not None:
            return found
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}: dali-proxy doesn't implement it yet")

    def stands_for_all_of(self, other: ModuleType) -> bool:
        """Return whether another module has names of the same module of this project."""
        return isinstance(other, _StandIn) and self._stand.module == other._stand.module != ""

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._names()})

    def _names(self) -> list[str]:
        return sorted({*self._stand.all(), *(name for name in children(self.__name__) if not name.startswith("_"))})
