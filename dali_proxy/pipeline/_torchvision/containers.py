"""Transforms of transforms: `Compose`, and random choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from dali_proxy.pipeline._dynamic.randomness import RNG
from dali_proxy.pipeline._dynamic.values import tracing
from dali_proxy.pipeline._torchvision.arguments import probability
from dali_proxy.pipeline._torchvision.control import chance, choice, switch, uniform
from dali_proxy.pipeline._torchvision.declaration import Located, Transform
from dali_proxy.pipeline._torchvision.images import Image, apply, decoded, of_operator, ops
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

Step = Callable[[Any], Any]


def run_all(image: Image, steps: Sequence[Step]) -> Any:
    """Call transforms in turn. Other functions get a dynamic tensor or batch, and return one."""
    result: Any = image
    for step in steps:
        result = tuple(run(each, step) for each in result) if isinstance(result, tuple) else run(result, step)
    return result


def run(image: Image, step: Step) -> Any:
    """Call a transform, or another function."""
    if isinstance(step, Lambda | Compose):
        return step(image)
    if isinstance(step, Transform):
        return step(decoded(image))
    result = step(image.data)
    if isinstance(result, tuple | list):
        return tuple(of_operator(each, image) for each in result)
    return of_operator(result, image)


def _steps(op_list: Any, transforms: Any = None) -> list[Step]:
    """Return the steps, which torchvision names `transforms`."""
    transforms = op_list if transforms is None else transforms
    if not isinstance(transforms, Sequence) or not all(map(callable, transforms)):
        raise ArgumentTypeError("Argument transforms should be a sequence of callables")
    return list(transforms)


class Compose(Located):
    """Transforms that run in turn, as one graph. `DALIServer` and `dali_proxy.serve` accept it, too.

    Args:
        op_list: transforms, or functions that get a dynamic tensor and return one, such as `dynamic.decoders.image`.
        batch_size: accepted for compatibility: batches of any size are processed.
        num_threads: accepted for compatibility: `dynamic.set_num_threads` sets the number of threads.
        layout: layout of images in a trace that aren't encoded: "HWC", or "CHW" for those of torch tensors.
        seed: seed of the random numbers. Without it, they come from the generator of the thread.
        transforms: torchvision's name of `op_list`.
        **pipeline_arguments: accepted for compatibility.

    Example:
        >>> import numpy as np
        >>> from PIL import Image
        >>> from dali_proxy import dynamic
        >>> half = Lambda(lambda x: dynamic.brightness(x, brightness=0.5))
        >>> Compose([half])(Image.fromarray(np.full((4, 6, 3), 8, np.uint8))).getpixel((0, 0))
        (4, 4, 4)
    """

    def __init__(
        self,
        op_list: Sequence[Step] | None = None,
        batch_size: int = 16,
        num_threads: int = 1,
        layout: str = "HWC",
        seed: int | None = None,
        transforms: Sequence[Step] | None = None,
        **pipeline_arguments: Any,
    ) -> None:
        self.transforms = _steps(op_list, transforms)
        self._layout = layout
        self._rng = None if seed is None or seed < 0 else RNG(seed)

    @property
    def op_list(self) -> list[Step]:
        """The transforms."""
        return self.transforms

    def __call__(self, inpt: Any) -> Any:
        """Return the transformed images.

        Args:
            inpt: a PIL image, a torch tensor (CHW, or with dimensions in front), a dynamic tensor or batch, encoded
                bytes, or a list of PIL images or tensors.
        """
        with self._at_its_line(), nullcontext() if self._rng is None or tracing.active() else self._rng:
            return apply(self._transformed, inpt, encoded=True)

    def _transformed(self, image: Image) -> Any:
        return run_all(image if self._layout == "HWC" else decoded(image, self._layout), self.transforms)

    def __repr__(self) -> str:
        lines = "".join(f"\n    {each}" for each in self.transforms)
        return f"Compose({lines}\n)"


class Lambda(Transform):
    """A function as a transform. It gets a dynamic tensor or batch, and returns one.

    Args:
        lambd: the function.
        *types: accepted for compatibility.
    """

    def __init__(self, lambd: Step, *types: Any) -> None:
        if not callable(lambd):
            raise ArgumentTypeError(f"Argument lambd should be callable, got {type(lambd)}")
        self.lambd = lambd

    def _transformed(self, image: Image) -> Any:
        return run(image, self.lambd)

    def __repr__(self) -> str:
        return f"Lambda({getattr(self.lambd, '__name__', self.lambd)})"


class RandomApply(Transform):
    """Applies all transforms, with a probability.

    Args:
        op_list: transforms.
        p: probability.
        device: accepted for compatibility.
        transforms: torchvision's name of `op_list`.
    """

    def __init__(
        self,
        op_list: Sequence[Step] | None = None,
        p: float = 0.5,
        device: Any = "cpu",
        transforms: Sequence[Step] | None = None,
    ) -> None:
        self.transforms = _steps(op_list, transforms)
        self.p = probability("p", p)

    def _transformed(self, image: Image) -> Any:
        return switch(
            chance(image, self.p),
            [lambda image: image, lambda image: run_all(image, self.transforms)],
            image,
            draws=True,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.transforms})"


class RandomChoice(RandomApply):
    """Applies one of several transforms.

    Args:
        transforms: transforms.
        p: their probabilities, or weights; equal by default.
    """

    def __init__(self, transforms: Sequence[Step], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        if p is not None and len(p) != len(transforms):
            raise ArgumentValueError(f"p has {len(p)} values for {len(transforms)} transforms")
        self.weights = [1.0] * len(transforms) if p is None else list(p)

    def _transformed(self, image: Image) -> Any:
        steps = [lambda image, step=step: run(image, step) for step in self.transforms]
        return switch(choice(image, self.weights), steps, image, draws=True)


class RandomOrder(RandomApply):
    """Applies all transforms, in a random order.

    Args:
        transforms: transforms.
    """

    def __init__(self, transforms: Sequence[Step]) -> None:
        super().__init__(transforms)

    def _transformed(self, image: Image) -> Any:
        drawn = [uniform(image, 0, 1) for _ in self.transforms]
        ranks = [
            sum(
                (other < own) if number > index else (other <= own)
                for number, other in enumerate(drawn)
                if number != index
            )
            for index, own in enumerate(drawn)
        ]
        steps = [lambda image, step=step: run(image, step) for step in self.transforms]
        for turn in range(len(steps)):
            index = sum((rank == turn) * number for number, rank in enumerate(ranks))
            image = switch(ops.cast(index, dtype=ops.int32), steps, image, draws=True)
        return image
