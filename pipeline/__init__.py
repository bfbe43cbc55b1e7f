"""`dali_proxy.pipeline` by its short name: `pipeline.fn` is the module `dali_proxy.pipeline.fn`, and so on.

Nothing in `dali_proxy` imports this package, so scripts that don't, either, can have a module `pipeline` of their own.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from dali_proxy import pipeline as _real

# The user's folders of this name without `__init__.py`: Python prefers this package, wherever they are.
_FOLDERS = [path for each in sys.path if os.path.isdir(path := os.path.join(each, __name__)) and path not in __path__]
_FOLDERS = [path for path in _FOLDERS if not os.path.exists(os.path.join(path, "__init__.py"))]
__all__ = list(_real.__all__)


class _Finder(MetaPathFinder, Loader):
    """Finds the modules below this package: those of the user's folders, and those of `dali_proxy.pipeline`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{__name__}."):
            return None
        users = PathFinder.find_spec(fullname, _FOLDERS) if path == __path__ else None
        if users is not None and users.origin is not None:
            return users
        real = f"dali_proxy.{fullname}"
        try:
            module = importlib.import_module(real)
        except ModuleNotFoundError as error:
            if error.name == real:
                return None
            raise
        return ModuleSpec(fullname, self, is_package=hasattr(module, "__path__"))

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        real = f"dali_proxy.{module.__name__}"
        sys.modules[module.__name__] = sys.modules[real]  # the import system allows this, and returns that module
        for name, below in list(sys.modules.items()):
            if name.startswith(f"{real}."):  # modules such as `fn.io.file` lie below modules that aren't packages
                sys.modules.setdefault(name.removeprefix("dali_proxy."), below)


sys.meta_path.insert(0, _Finder())


def __getattr__(name: str) -> Any:
    try:
        return getattr(_real, name)
    except AttributeError as error:
        if error.obj is not _real:
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=_real) from None


def __dir__() -> list[str]:
    return dir(_real)
