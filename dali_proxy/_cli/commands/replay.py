"""``dali-proxy replay``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dali_proxy._cli.command import Command, CommandError
from dali_proxy._cli.numbers import number
from dali_proxy._cli.targets import load_callable

if TYPE_CHECKING:
    from dali_proxy.pipeline._executor.draws import Draw

_DESCRIPTION = """Show what a training saw at a step: the dataset indices of the samples, the random numbers of each,
and an image of the first output that is a batch of images. The state is one that `DataLoader.state_dict` returned in
the same epoch, in a file of `torch.save`, alone or in a checkpoint. A step counts the batches of all epochs, from 0."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("loader", metavar="LOADER", help="FILE.py:NAME or MODULE:NAME: a function that returns the DataLoader")
    add("state", metavar="STATE", type=Path, help="file with the state, such as a checkpoint")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--step", type=number(0), help="number of the batch in the training, if all epochs are as long")
    place.add_argument("--batch", type=number(0), help="number of the batch in the epoch (default: that of the state)")
    add("--rank", type=number(0), help="rank whose batch it is (default: that of the environment)")
    add("--world-size", type=number(1), help="number of ranks, with --rank")
    add("--output", type=Path, default=Path("replay.png"), help="image file to write (default: %(default)s)")


def _execute(options: argparse.Namespace) -> int:
    import torch

    import dali_proxy

    if (options.rank is None) != (options.world_size is None):
        raise CommandError("--rank and --world-size belong together", status=2)
    if options.rank is not None:
        os.environ.update(RANK=str(options.rank), WORLD_SIZE=str(options.world_size), LOCAL_RANK="0")
        os.environ["LOCAL_WORLD_SIZE"] = "1"
    try:
        state = next(_states(torch.load(options.state, map_location="cpu", weights_only=True)), None)
    except Exception as error:
        raise CommandError(f"can't read {options.state}: {error}") from error
    if state is None:
        raise CommandError(f"{options.state} has no state of a dali_proxy.DataLoader")
    loader = load_callable(options.loader)()
    if not isinstance(loader, dali_proxy.DataLoader):
        kind = type(loader).__name__
        raise CommandError(f"{options.loader} returned a {kind}, not a dali_proxy.DataLoader", status=2)
    batch = options.batch
    if options.step is not None:
        epoch, batch = divmod(options.step, len(loader))
        if epoch != state["epoch"]:
            raise CommandError(
                f"step {options.step} is in epoch {epoch}, but the state in epoch {state['epoch']}: use one of that "
                "epoch"
            )
    try:
        replayed = loader.replay(state, batch)
        indices = replayed.indices if hasattr(replayed.indices, "__len__") else [replayed.indices]  # without batches
        indices = [each.item() if isinstance(each, torch.Tensor) else each for each in indices]
        print(f"epoch {replayed.epoch}, batch {replayed.batch}, dataset indices {indices}")
        tensors = _tensors(replayed.data)
        for place, value in tensors.items():
            print(f"{place}: {tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}")
        for draws in _by_call(replayed.draws):
            print(_drawn(draws, indices))
        images = next((value for value in tensors.values() if value.ndim in (4, 5)), None)
        if images is not None:
            dali_proxy.show(images, labels=indices, path=options.output)
            print(f"Saved {options.output}.")
    finally:
        loader.dali_server.stop()
    return 0


def _states(value: Any) -> Iterator[dict[str, Any]]:
    """Return the states of loaders in a checkpoint."""
    if isinstance(value, dict):
        if {"kind", "epoch", "batches", "sampler", "version"} <= value.keys():
            yield value
        for each in value.values():
            yield from _states(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _states(each)


def _tensors(data: Any) -> dict[str, Any]:
    """Return the tensors of a batch, by their places in it."""
    from torch.utils import _pytree

    found = {f"batch{_pytree.keystr(path)}": value for path, value in _pytree.tree_leaves_with_path(data)}
    return {place: value for place, value in found.items() if hasattr(value, "shape") and hasattr(value, "dtype")}


def _by_call(draws: Iterable[Draw]) -> list[list[Draw]]:
    """Return draws in groups: those of one call of an operator, each of which has another name."""
    calls: list[list[Draw]] = []
    for draw in draws:
        last = calls[-1] if calls else [draw]
        same = (draw.operator, draw.line, draw.view) == (last[0].operator, last[0].line, last[0].view)
        if same and draw.name not in {each.name for each in last}:
            last.append(draw)
        else:
            calls.append([draw])
    return calls


def _drawn(draws: list[Draw], indices: list[Any]) -> str:
    """Return the lines for what an operator drew: one for each sample, with its dataset index."""
    first = draws[0]
    place = f" ({first.line})" if first.line else ""
    title = f"{first.operator}{place}" + (f", view {first.view}" if first.view else "")
    columns = [draw.numbers for draw in draws if draw.numbers is not None]
    if not columns:
        return f"{title}: draws that aren't shown"
    names = indices if len(indices) == len(columns[0]) else [f"sample {n}" for n in range(len(columns[0]))]
    lines = [title + ":"]
    for name, numbers in zip(names, zip(*columns, strict=True), strict=True):
        values = (f"{draw.name} {_text(each)}".lstrip() for draw, each in zip(draws, numbers, strict=True))
        lines.append(f"  {name}: {'in another branch' if numbers[0] is None else ', '.join(values)}")
    return "\n".join(lines)


def _text(numbers: Any) -> str:
    """Return numbers in one line; the shape of many."""
    if numbers.size > 16:
        return f"{numbers.size} numbers, shape {numbers.shape}"
    return str(numbers.tolist()) if numbers.ndim else f"{numbers.item():g}"


COMMAND = Command(
    "show the samples, random numbers and images of any step of a training", _execute, _add_arguments, _DESCRIPTION
)
