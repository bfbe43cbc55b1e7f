"""``dali-proxy replay``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
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
        for draw in replayed.draws:
            print(_drawn(draw, indices))
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


def _drawn(draw: Draw, indices: list[Any]) -> str:
    """Return the lines for the numbers that an operator drew: one for each sample, with its dataset index."""
    place = f" ({draw.line})" if draw.line else ""
    title = f"{draw.operator}{place}" + (f", view {draw.view}" if draw.view else "")
    if draw.numbers is None:
        return f"{title}: draws that depend on the data, which aren't shown"
    names = indices if len(indices) == len(draw.numbers) else [f"sample {n}" for n in range(len(draw.numbers))]
    values = ["in another branch" if each is None else _text(each) for each in draw.numbers]
    return "\n".join([f"{title}:", *(f"  {name}: {value}" for name, value in zip(names, values, strict=True))])


def _text(numbers: Any) -> str:
    """Return numbers in one line; the shape of many."""
    if numbers.size > 16:
        return f"{numbers.size} numbers, shape {numbers.shape}"
    return str(numbers.tolist()) if numbers.ndim else f"{numbers.item():g}"


COMMAND = Command(
    "show the samples, random numbers and images of any step of a training", _execute, _add_arguments, _DESCRIPTION
)
