"""The traits of an operator: what the compiler and the executor must know about its class to run it fast."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields

#: Pairs that no operator can have, with the reason.
_CONTRADICTIONS = (
    ("any_thread", "in_order", "batches in order can't run on several threads at once"),
    ("in_order", "per_sample", "several batches would run as one"),
    ("in_order", "repeatable", "launches that are repeated don't call the user's code"),
    ("waits", "repeatable", "launches that are repeated don't wait"),
    ("waits", "only_launches", "its launches would wait for those of other operators, and it for them"),
    ("elementwise", "gathers", "each element depends on one element, or on several"),
)


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What holds for all operators of a class. Each trait permits something; the default is always safe.

    A class states its traits as ``traits = Traits(waits=True)``. A class on the GPU adds to those of its base class:
    ``traits = replace(PixelOperator.traits, gathers=True)``.
    """

    #: It may wait for files, other processes or the user's code, so it doesn't run on the thread that calls
    #: `Pipeline.run`. All operators.
    waits: bool = False
    #: Each element of the output depends only on the same element of the first input, in the same way for all samples.
    #: The `run` of a `SampleOperator` then also accepts a whole batch as one sample; the inputs of a `PixelOperator`
    #: needn't be images.
    elementwise: bool = False
    #: A `SampleOperator` that reads inputs with any strides at the speed of contiguous ones.
    any_strides: bool = False
    #: A `BatchOperator` that several threads may run at once, for different batches.
    any_thread: bool = False
    #: A `BatchOperator` that must see the batches one after another, in order, because it runs the user's code.
    in_order: bool = False
    #: A `BatchOperator` whose result for a sample depends only on this sample, its arguments, and random numbers from
    #: `uniform`, `sample_seeds` or `sample_generators`. Several batches, or several equal operators, may then run as
    #: one. `PixelOperator` has it.
    per_sample: bool = False
    #: A `GpuOperator` that reads GPU data only in launches of `KernelContext.run`. These wait for launches of other
    #: operators, and share one upload with them. The executor flushes the launches before operators that read data
    #: otherwise. `GpuOperator` has it.
    only_launches: bool = False
    #: A `GpuOperator` with constant arguments that launches the same for all batches of one size and inputs of one
    #: shape. Random numbers may differ if they depend only on scalars of its launch, which `seed_scalars` returns.
    #: `GpuOperator` has it.
    repeatable: bool = False
    #: A `PixelOperator` whose output pixels read several input pixels. An input that does so, too, is computed first.
    gathers: bool = False
    #: A `PixelOperator` whose `express` launches kernels for results in between. It then needs a GPU.
    launches: bool = False
    #: A `PixelOperator` for which each channel of the output depends only on the same channel of the input, in the same
    #: way for all of them. Images then may have any number of channels.
    planewise: bool = False

    def check(self, operator: str, supported: Collection[str]) -> None:
        """Check the traits of an operator's class, of which its base class supports some, when it is registered.

        Raises:
            RuntimeError: they contradict each other, or the base class.
        """
        own = {field.name for field in fields(self) if getattr(self, field.name)}
        useless = own.difference(supported)
        if useless:
            raise RuntimeError(f"operator {operator}: its base class has no use for {', '.join(sorted(useless))}")
        for one, other, reason in _CONTRADICTIONS:
            if {one, other} <= own:
                raise RuntimeError(f"operator {operator} can't be both {one} and {other}: {reason}")
