"""Functions of `nvidia.dali.plugin_manager`."""

from __future__ import annotations

from dali_proxy._nvidia.backend import LoadDirectory, LoadLibrary

__all__ = ["load_directory", "load_library"]


def load_library(library_path: str, global_symbols: bool = False) -> None:
    """Raise an error: a plugin is a library for NVIDIA DALI's executor, which can't be used here.

    Args:
        library_path: path of the library.
        global_symbols: accepted for compatibility.

    Raises:
        PipelineError: always.
    """
    LoadLibrary(library_path, global_symbols)


def load_directory(plugin_dir_path: str, global_symbols: bool = False) -> None:
    """Call `load_library` for the files ``{plugin_dir_path}/*/libdali_*.so``."""
    LoadDirectory(plugin_dir_path, global_symbols)
