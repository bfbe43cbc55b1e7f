"""A sample in shared memory, and placeholders: the proxy returns them, and torch's collation makes those of a batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import msgspec

from dali_proxy._worker.tickets import Ticket
from dali_proxy.errors import PlaceholderAttributeError, PlaceholderError
from dali_proxy.pipeline._dynamic.structure import Output, is_record
from dali_proxy.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from dali_proxy._transport.endpoint import Endpoint
    from dali_proxy.pipeline._ipc.arena import Block

_OUTPUT = attrgetter("output")


class Submitter(Protocol):
    """What a sample needs of a `WorkerClient`."""

    endpoint: Endpoint

    def submit(self, samples: Sequence[Sample]) -> Ticket:
        """Submit samples as a batch."""

    def goodbye(self) -> str:
        """Return the server's reason for the end of the connection."""


class Sample(msgspec.Struct, eq=False, weakref=True):
    """The inputs of one sample, in the arena of the process that created it.

    Its memory stays in use while this object lives (that is, while a `SampleRef` refers to it) and while a request that
    uses it is in flight. So a dataset may keep references, and a collate function may use a sample twice or drop it.

    Attributes:
        client: connection whose arena holds the sample.
        number: number of the sample, unique within the client.
        blocks: memory blocks of the inputs, in the order of the pipeline's inputs.
        dtypes: dtypes of the inputs, as text.
        shapes: shapes of the inputs.
        index: dataset index of the sample; None if unknown.
        name: name that the proxy's caller gave the sample, or None.
        alone: the ticket of `submit_alone`, or None.
    """

    client: Submitter
    number: int
    blocks: tuple[Block, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    index: Any
    name: str | None = None
    alone: Ticket | None = None

    def submit_alone(self) -> Ticket:
        """Submit the sample as a batch of one, on the first call only. Return that batch's ticket.

        An error is raised later, when the batch is fetched: pickling calls this in a thread of multiprocessing, which
        would drop the batch and leave its reader waiting forever.
        """
        if self.alone is None:
            try:
                self.alone = self.client.submit([self])
            except PipelineError as error:
                self.alone = Ticket.from_error(error)
        return self.alone


# All methods through which Python, NumPy and torch use an object as data, except `==` and `hash`, which containers
# need. Messages name them as users write them.
_CALLS = "abs bool complex divmod float int iter len reversed round"
_SYMBOLS = {
    **{"add": "+", "sub": "-", "mul": "*", "matmul": "@", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"},
    **{"and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>"},
}
_USES = {
    **{name: f"{name}()" for name in _CALLS.split()},
    **{f"{side}{name}": symbol for name, symbol in _SYMBOLS.items() for side in ("", "r")},
    **{f"i{name}": f"{symbol}=" for name, symbol in _SYMBOLS.items()},
    **{"rdivmod": "divmod()", "neg": "-", "pos": "+", "invert": "~", "lt": "<", "le": "<=", "gt": ">", "ge": ">="},
    **{"getitem": "[...]", "setitem": "[...] =", "delitem": "del", "contains": "in", "index": "index"},
    **dict.fromkeys(("array", "array_function", "array_ufunc"), "numpy"),
}


class Placeholder:
    """Base of the placeholders: any use as data raises a `PlaceholderError` that suggests an alternative."""

    __slots__ = ("__weakref__",)

    advice = ""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        if other is None or isinstance(other, Placeholder):
            return self is other
        self._refuse("==")

    def __ne__(self, other: object) -> bool:
        if other is None or isinstance(other, Placeholder):
            return self is not other
        self._refuse("!=")

    def _refuse(self, use: str) -> NoReturn:
        raise PlaceholderError(f"{self!r} has no data yet, so '{use}' isn't possible. {self.advice}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # protocols check this way whether a method exists
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        raise PlaceholderAttributeError(f"{self!r} has no data yet, and therefore no {name!r}. {self.advice}")

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        name = getattr(function, "__name__", str(function))
        raise PlaceholderError(f"a {cls.__name__} has no data yet, so 'torch.{name}' isn't possible. {cls.advice}")


def _refusing(name: str, use: str) -> Callable[..., NoReturn]:
    def method(self: Placeholder, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse(use)

    method.__name__ = name
    return method


for _name, _use in _USES.items():
    setattr(Placeholder, f"__{_name}__", _refusing(f"__{_name}__", _use))


class SampleRef(Placeholder):
    """A placeholder for one output of the pipeline for one sample; `server.proxy(...)` returns it inside a dataset.

    Return it from `__getitem__` unchanged, in any nesting. Collation turns the `SampleRef`s of a batch into one
    `BatchRef`; the loader turns the `BatchRef` into a tensor.

    Attributes:
        sample: inputs of the sample, in shared memory.
        output: index of the pipeline's output.
    """

    __slots__ = ("output", "sample")

    advice = (
        "It stands for an output of the pipeline. Compute on it in the pipeline, in "
        "DataLoader(batch_transform=function), or in the training loop. A collate_fn passes such placeholders to "
        "torch.utils.data.default_collate."
    )

    def __init__(self, sample: Sample, output: int) -> None:
        self.sample = sample
        self.output = output

    def __repr__(self) -> str:
        return f"SampleRef(output={self.output})"

    def __deepcopy__(self, memo: dict[int, Any]) -> SampleRef:
        return self

    def __copy__(self) -> SampleRef:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # A sample that leaves its process uncollated becomes a batch of one.
        return (BatchRef, (self.sample.submit_alone(), self.output, 0))


class BatchRef(Placeholder):
    """A placeholder for one output of a submitted batch, or for one item of it; `produce_data` turns it into a tensor.

    Attributes:
        ticket: ticket of the batch.
        output: index of the pipeline's output.
        item: position of a single sample in the batch; None for the whole batch.
    """

    __slots__ = ("item", "output", "ticket")

    advice = (
        "To get tensors, loop over a dali_proxy.DataLoader(server, ...) in place of torch's own DataLoader. If a "
        "framework makes the loader, give it collate_fn=loader.collate_fn; or call server.produce_data(batch). In a "
        "collate_fn, which runs before the pipeline, pass placeholders on: compute on the tensors in "
        "DataLoader(batch_transform=function), in the training loop, or in the pipeline."
    )

    def __init__(self, ticket: Ticket, output: int, item: int | None = None) -> None:
        self.ticket = ticket
        self.output = output
        self.item = item

    def pin_memory(self, device: Any = None) -> BatchRef:
        """Return the reference unchanged: torch pins a batch too early; `dali_proxy.DataLoader` pins the results."""
        return self

    def __repr__(self) -> str:
        item = "" if self.item is None else f", item={self.item}"
        return f"BatchRef({self.ticket!r}, output={self.output}{item})"

    def __deepcopy__(self, memo: dict[int, Any]) -> BatchRef:
        return self

    def __copy__(self) -> BatchRef:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (BatchRef, (self.ticket, self.output, self.item))


class JoinedRefs(BatchRef):
    """A placeholder for values of several batches.

    Attributes:
        refs: their placeholders.
    """

    __slots__ = ("refs",)

    def __init__(self, refs: tuple[BatchRef, ...]) -> None:
        super().__init__(refs[0].ticket, refs[0].output)
        self.refs = refs

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.refs)} x {self.refs[0]!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.refs,))


class StackedRefs(JoinedRefs):
    """A placeholder for values of several batches, one for each sample of a collated batch.

    `default_collate` makes it of `BatchRef`s: placeholders of samples that came from other processes, where each was
    submitted as a batch of one.
    """

    __slots__ = ()


class PackedRefs(JoinedRefs):
    """A placeholder for the samples of batches, one after another along their first dimension; see `PackedCollate`."""

    __slots__ = ()


# Collation by torch's `default_collate` ------------------------------------------------------------------------------


def collate_sample_refs(batch: Sequence[SampleRef], *, collate_fn_map: Any = None) -> BatchRef:
    """Submit a batch of samples and return a reference to one output. torch's `default_collate` calls this."""
    output, samples = batch[0].output, []
    for ref in batch:
        if ref.output != output:
            raise _mixed(batch)
        samples.append(ref.sample)
    return BatchRef(samples[0].client.submit(samples), output)


def collate_batch_refs(batch: Sequence[BatchRef], *, collate_fn_map: Any = None) -> StackedRefs:
    """Return a reference to the stacked values of submitted samples, which came from other processes."""
    if len(set(map(_OUTPUT, batch))) != 1:
        raise _mixed(batch)
    return StackedRefs(tuple(batch))


def _mixed(batch: Sequence[SampleRef] | Sequence[BatchRef]) -> ValueError:
    outputs = sorted(set(map(_OUTPUT, batch)))
    return ValueError(f"a batch mixes the pipeline's outputs {outputs}: collate them one by one")


def collate_records(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Collate the fields of dataclasses, as torch's `default_collate` does with the values of dicts."""
    from torch.utils.data._utils.collate import collate

    result = copy.copy(batch[0])
    for field in fields(result):
        values = [getattr(each, field.name) for each in batch]
        object.__setattr__(result, field.name, collate(values, collate_fn_map=collate_fn_map))
    return result


def register_with_torch(structure: Any = None) -> None:
    """Register functions with `torch.utils.data.default_collate`.

    Args:
        structure: structure of a proxy's results, whose dataclasses torch couldn't collate.
    """
    from torch.utils.data._utils.collate import default_collate_fn_map  # documented, though its module isn't public

    default_collate_fn_map[SampleRef] = collate_sample_refs
    default_collate_fn_map[BatchRef] = collate_batch_refs
    waiting = [structure]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each
        elif is_record(each) and not isinstance(each, Output):
            default_collate_fn_map.setdefault(type(each), collate_records)
            waiting += [getattr(each, field.name) for field in fields(each)]


def register_with_pytrees() -> None:
    """Let functions such as `torch.utils._pytree.tree_flatten` raise a `PlaceholderError` for placeholders.

    torchvision's transforms (v2) flatten a sample, change the parts that they know and leave all others as they are.
    Without this, they would leave images unchanged without an error.
    """
    from torch.utils._pytree import SUPPORTED_NODES, register_pytree_node

    for kind in (SampleRef, BatchRef, StackedRefs, PackedRefs):
        if kind not in SUPPORTED_NODES:
            register_pytree_node(kind, _refuse_flattening, _unflatten)


def _refuse_flattening(ref: Placeholder) -> NoReturn:
    ref._refuse("torch.utils._pytree")


def _unflatten(values: Any, context: Any) -> NoReturn:
    raise AssertionError("placeholders aren't flattened")
