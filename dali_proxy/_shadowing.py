"""Conflicts about the import name `pipeline`, which both our package and a user's module may have.

Usually, such a user's module causes an error that names its file. In processes that called `install_as_nvidia_dali`,
the author of the script didn't know our package. There, our package is loaded under a private name, and `pipeline` is
the user's module.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

_PUBLIC = "pipeline"
_PRIVATE = "dali_proxy._pipeline"
_FOLDER = Path(__file__).resolve().parents[1] / _PUBLIC
_OURS = str(_FOLDER / "__init__.py")


def guard_name() -> None:
    """Make `import pipeline` return our package, or raise an error that names the module that hides it.

    Raises:
        ImportError: another module of that name was already imported.
    """
    imported = sys.modules.get(_PUBLIC)
    if imported is not None and not _is_ours(getattr(imported, "__file__", None)):
        raise _hidden(getattr(imported, "__file__", None) or str(imported))
    sys.meta_path.insert(0, _FINDER)


def give_way() -> None:
    """Leave the name `pipeline` to the user's module from now on, unless our package already uses it."""
    if _PUBLIC not in sys.modules:
        _FINDER.name = _PRIVATE


def import_ours(name: str) -> ModuleType:
    """Import one of our modules, under the name that our package has in this process.

    Args:
        name: the module's usual full name, such as "pipeline.fn" or "dali_proxy._worker.placeholders".
    """
    return importlib.import_module(_renamed(name, _PUBLIC, _FINDER.name))


class _Finder(MetaPathFinder):
    """Finds our package, and the user's module with the same name.

    Attributes:
        name: name that our package is loaded under. Imports of its other name return the same modules, because pickles
            may come from a process that uses that name.
    """

    name = _PUBLIC

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        private = self.name == _PRIVATE
        if fullname == _PUBLIC:
            return self._find_root() if private else _find_unhidden()
        if _is_below(fullname, _PUBLIC):
            return self._find_below(fullname) if private else _find_in_folder(fullname)
        if fullname == _PRIVATE or _is_below(fullname, _PRIVATE):
            return _find_private(fullname, path) if private else _find_same(fullname, _PRIVATE, _PUBLIC)
        if private and _is_below(fullname, "dali_proxy"):
            return _with_our_imports(PathFinder.find_spec(fullname, path))
        return None

    def _find_root(self) -> ModuleSpec | None:
        return _find_users() or _find_same(_PUBLIC, _PUBLIC, _PRIVATE)

    def _find_below(self, fullname: str) -> ModuleSpec | None:
        if sys.modules.get(_PUBLIC) is not sys.modules.get(_PRIVATE):
            return None  # Python finds the user's module
        return _find_same(fullname, _PUBLIC, _PRIVATE)


_FINDER = _Finder()


def _find_unhidden() -> ModuleSpec | None:
    """Find `pipeline` as Python would.

    Raises:
        ImportError: it isn't our package.
    """
    spec = _search(None)
    if spec is not None and spec.has_location and not _is_ours(spec.origin):
        raise _hidden(spec.origin)
    return spec


def _find_in_folder(fullname: str) -> ModuleSpec | None:
    """Return None for our modules, which Python finds itself.

    Raises:
        ModuleNotFoundError: it isn't our module, but lies in a user's folder that our package hides.
    """
    name = fullname.partition(".")[2]
    if "." in name or (_FOLDER / name).is_dir() or (_FOLDER / f"{name}.py").exists():
        return None
    hidden = _find_users()
    for folder in (hidden and hidden.submodule_search_locations) or ():
        if PathFinder.find_spec(fullname, [folder]) is not None:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: `pipeline` is a package of dali-proxy, which hides {folder}. Rename "
                f"that folder. {_REMEDY}",
                name=fullname,
            )
    return None


def _find_users() -> ModuleSpec | None:
    """Find the module that `import pipeline` would return without our package."""
    # In a folder with `dali_proxy`, `pipeline` is our package: this copy or another one.
    path = [entry for entry in sys.path if isinstance(entry, str) and not os.path.exists(_copy_in(entry))]
    spec = _search(path)
    if spec is None or _is_ours(spec.origin):
        return None
    if spec.loader is None or spec.origin is None:  # a folder without `__init__.py`, possibly with data
        folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
        if not any(next(folder.glob(pattern), None) for folder in folders for pattern in ("*.py", "*/*.py")):
            return None
    return spec


def _copy_in(folder: str) -> str:
    return os.path.join(folder or os.curdir, "dali_proxy", "__init__.py")


def _search(path: Sequence[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if finder is _FINDER or find is None:
            continue
        spec: ModuleSpec | None = find(_PUBLIC, path if finder is PathFinder else None)
        if spec is not None:
            return spec
    return None


def _find_private(fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
    if fullname != _PRIVATE:
        return _with_our_imports(PathFinder.find_spec(fullname, path))
    return _with_our_imports(spec_from_file_location(_PRIVATE, _OURS, submodule_search_locations=[str(_FOLDER)]))


def _find_same(fullname: str, name: str, loaded: str) -> ModuleSpec | None:
    """Find a module that is loaded under the other name of our package."""
    wanted = _renamed(fullname, name, loaded)
    try:
        module = importlib.import_module(wanted)
    except ModuleNotFoundError as error:
        if error.name == wanted:
            return None
        raise
    return ModuleSpec(fullname, _Same(wanted), is_package=hasattr(module, "__path__"))


def _with_our_imports(spec: ModuleSpec | None) -> ModuleSpec | None:
    if spec is not None and isinstance(spec.loader, SourceFileLoader):
        spec.loader = _OwnLoader(spec.loader.name, spec.loader.path)
    return spec


class _Same(Loader):
    """Makes an import return an existing module."""

    def __init__(self, loaded: str) -> None:
        self._loaded = loaded

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        # The import system allows this, and returns that module.
        sys.modules[module.__name__] = sys.modules[self._loaded]
        for name, below in list(sys.modules.items()):
            if _is_below(name, self._loaded):  # modules such as `fn.readers` lie below `fn`, which isn't a package
                sys.modules.setdefault(_renamed(name, self._loaded, module.__name__), below)


class _OwnLoader(SourceFileLoader):
    """Loads a module in which `import pipeline` means our package."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = _BUILTINS
        super().exec_module(module)


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """Run an import statement of our modules while our package has the private name."""
    # C code, such as pickle's, passes a list; the names that it looks up must stay unchanged.
    if level or isinstance(fromlist, list) or not (name == _PUBLIC or _is_below(name, _PUBLIC)):
        return builtins.__import__(name, globals, locals, fromlist, level)
    module = builtins.__import__(_renamed(name, _PUBLIC, _PRIVATE), globals, locals, fromlist, 0)
    return module if fromlist else sys.modules[_PRIVATE]


_BUILTINS = {**vars(builtins), "__import__": _import}


_REMEDY = "A script for NVIDIA DALI can keep its own `pipeline`: start it with `dali-proxy run`."


def _hidden(file: str | None) -> ImportError:
    return ImportError(
        f"{file} hides the package `pipeline` of dali-proxy, which has the same name. Rename that file or folder. "
        f"{_REMEDY}",
        name=_PUBLIC,
        path=file,
    )


def _is_ours(file: str | None) -> bool:
    return file is not None and os.path.realpath(file) == _OURS


def _is_below(name: str, package: str) -> bool:
    return name.startswith(f"{package}.")


def _renamed(name: str, package: str, other: str) -> str:
    return f"{other}{name[len(package) :]}" if name == package or _is_below(name, package) else name
