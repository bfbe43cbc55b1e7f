"""The pipeline that a command line names, and the errors about it."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dali_proxy._cli.command import CommandError

if TYPE_CHECKING:
    from dali_proxy.pipeline import Pipeline

_HELP = (
    "FILE.py:NAME or MODULE:NAME: a Pipeline, a function that returns one, a function of pipeline.dynamic, or a "
    "Compose; without :NAME, the only one in there"
)


def add_target(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    """Add the arguments that name a pipeline; with `nargs` "?", it may be missing."""
    parser.add_argument("pipeline", metavar="PIPELINE", nargs=nargs, help=_HELP)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="argument of the function, such as --set batch_size=64; may be repeated",
    )
    parser.add_argument(
        "--device", choices=("cpu", "gpu"), help="cpu: run a pipeline for a GPU on the CPU (default: as it is declared)"
    )


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the option for the data of inputs, besides the input that gets the image files."""
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="data for another input: a folder with files of the same names, FILE.py:FUNCTION or MODULE:FUNCTION (a "
        "function of a file's path), or a value for all files, such as [[0, 0, 1, 1]]; may be repeated",
    )


def input_values(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of the option of `add_inputs`, as arguments of `Pipeline.preview`."""
    values = _named_values(options.input)
    for name, value in values.items():
        if isinstance(value, str) and not Path(value).is_dir():
            values[name] = load_callable(value)
    return values


def load_pipeline(options: argparse.Namespace, folder: Path | None = None) -> Pipeline:
    """Return the pipeline that the arguments of `add_target` name.

    Args:
        options: the parsed arguments.
        folder: value for the function's parameter without one, if there is a single one.

    Raises:
        CommandError: there is no such pipeline, or the user's code failed.
    """
    if options.device is not None:
        os.environ["DALI_PROXY_DEVICE"] = options.device
    found = _find(options.pipeline)
    try:
        return _create(found, _named_values(options.set), folder, options.pipeline)
    except CommandError:
        raise
    except Exception as error:  # it comes from the user's code
        is_usage = bool(options.set) and isinstance(error, TypeError | ValueError)
        raise CommandError(f"{options.pipeline}: {type(error).__name__}: {error}", 2 if is_usage else 1) from error


def _named_values(words: Sequence[str]) -> dict[str, Any]:
    """Return the values of options such as ``batch_size=64`` by name: Python literals, else text.

    Raises:
        CommandError: a word has no "=".
    """
    values = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier():
            raise CommandError(f"{word!r} isn't of the form NAME=VALUE", status=2)
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[name] = text
    return values


def load_callable(text: str) -> Any:
    """Return the object that ``module:name`` or ``file.py:name`` names.

    Raises:
        CommandError: it doesn't exist, or the user's code failed.
    """
    place, _, name = text.rpartition(":")
    if not place:
        raise CommandError(f"{text!r} isn't of the form FILE.py:NAME or MODULE:NAME", status=2)
    return _attribute(_import(place), name, place)


def _find(text: str) -> Any:
    """Return the object that the argument PIPELINE names."""
    place, colon, name = text.rpartition(":")
    if colon:
        return _attribute(_import(place), name, place)
    module = _import(text)
    found = {key: value for key, value in vars(module).items() if _is_pipeline(value, module)}
    if len(found) != 1:
        problem = f"defines several pipelines, {', '.join(found)}" if found else "defines no pipeline"
        raise CommandError(f"{text} {problem}: name one, as in {text}:{next(iter(found), 'NAME')}", status=2)
    return next(iter(found.values()))


def _is_pipeline(value: Any, module: ModuleType) -> bool:
    from dali_proxy.pipeline import Pipeline

    if isinstance(value, Pipeline):
        return True
    is_own = getattr(value, "__module__", None) == module.__name__
    return is_own and (hasattr(value, "_is_pipeline_def") or (isinstance(value, type) and issubclass(value, Pipeline)))


def _attribute(module: ModuleType, name: str, place: str) -> Any:
    from dali_proxy.pipeline._listing import did_you_mean

    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            known = [key for key in vars(found) if not key.startswith("_")]
            raise CommandError(f"{place} has no {name!r}{did_you_mean(part, known)}", status=2) from None
    return found


def _import(place: str) -> ModuleType:
    """Import a module, or a file as a module; scripts for NVIDIA DALI get dali-proxy's modules."""
    from dali_proxy import pipeline  # so that `import pipeline` means this package, even with NVIDIA's names
    from dali_proxy._nvidia.install import install_as_nvidia_dali

    assert pipeline
    if "nvidia.dali" not in sys.modules:
        install_as_nvidia_dali()
    path = Path(place)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        raise CommandError(f"the file {place!r} doesn't exist", status=2)
    sys.path.insert(0, str(path.resolve().parent if is_file else Path.cwd()))
    try:
        return _execute_file(path) if is_file else importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name == place:
            raise CommandError(f"there is no module {place!r}", status=2) from error
        raise CommandError(f"{place}: {error}") from error
    except Exception as error:  # it comes from the user's code
        raise CommandError(f"{place}: {type(error).__name__}: {error}") from error


def _execute_file(path: Path) -> ModuleType:
    """Import a file. Its name is that of the file, if no other module has it, so that other processes find it, too."""
    name = path.stem if path.stem not in sys.modules else f"_{path.stem}_{os.getpid()}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _create(found: Any, values: dict[str, Any], folder: Path | None, place: str) -> Pipeline:
    from dali_proxy.pipeline import Pipeline

    if isinstance(found, Pipeline):
        if values:
            raise CommandError(f"{place} is a Pipeline, which takes no --set", status=2)
        return found
    if not callable(found):
        raise CommandError(f"{place} must be a Pipeline or a function, not {type(found).__name__}", status=2)
    if hasattr(found, "_is_pipeline_def"):
        missing = [
            name
            for name, parameter in inspect.signature(found).parameters.items()
            if parameter.default is parameter.empty and name not in values
        ]
        if len(missing) == 1 and folder is not None:
            values = {missing[0]: str(folder), **values}
        elif missing:
            raise CommandError(f"{place} needs --set {missing[0]}=VALUE", status=2)
        return found(**values)  # type: ignore[no-any-return]
    if isinstance(found, type):
        made = found(**values)
    else:
        parameters = inspect.signature(found).parameters.values()
        needs_nothing = all(each.default is not each.empty or each.name in values for each in parameters)
        made = found(**values) if needs_nothing else _traced(found, values)
    if not isinstance(made, Pipeline):
        raise CommandError(f"{place} returned {type(made).__name__}, not a Pipeline", status=2)
    return made


def _traced(function: Any, values: dict[str, Any]) -> Pipeline:
    from dali_proxy.pipeline.dynamic import trace  # a function of samples, as for `dali_proxy.serve`

    return trace(function, **values)
