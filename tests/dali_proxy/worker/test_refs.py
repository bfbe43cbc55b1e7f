"""Placeholders: any use as data raises an error that explains them."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
from torch.utils.data import default_collate
from torch.utils.data._utils.pin_memory import pin_memory

from dali_proxy import BatchError, BatchRef, DALIServer, DataLoader, PlaceholderError, SampleRef
from dali_proxy._worker.tickets import Ticket, discard_through, forget_discard
from tests.dali_proxy.indexed import sample

USES: dict[str, Callable[[Any], Any]] = {
    "asarray": np.asarray,
    "array": lambda ref: np.array([ref, ref]),
    "stack": lambda ref: np.stack([ref, ref]),
    "mean": np.mean,
    "add": lambda ref: ref + 1,
    "radd": lambda ref: 1 + ref,
    "radd array": lambda ref: np.ones(3) + ref,
    "add tensor": lambda ref: torch.ones(3) + ref,
    "divide": lambda ref: ref / 255,
    "negate": lambda ref: -ref,
    "as_tensor": torch.as_tensor,
    "tensor": torch.tensor,
    "torch.stack": lambda ref: torch.stack([ref, ref]),
    "torch.add": lambda ref: torch.add(ref, 1),
    "len": len,
    "iterate": list,
    "unpack": lambda ref: (lambda a, b: (a, b))(*ref),
    "index": lambda ref: ref[0],
    "assign": lambda ref: ref.__setitem__(0, 1),
    "float": float,
    "int": int,
    "sqrt": math.sqrt,
    "bool": bool,
    "less": lambda ref: ref < 3,
    "equal": lambda ref: ref == 5,
    "equal reflected": lambda ref: (5).__eq__(ref) is NotImplemented and ref.__eq__(5),
    "not equal": lambda ref: ref != 5,
    "equal array": lambda ref: np.ones(3) == ref,
    "equal tensor": lambda ref: torch.ones(3) == ref,
    "mixup": lambda ref: 0.3 * ref + 0.7 * ref,
    "shape": lambda ref: ref.shape,
    "dtype": lambda ref: ref.dtype,
    "permute": lambda ref: ref.permute(2, 0, 1),
    "to": lambda ref: ref.to("cpu"),
    "pytree": tree_flatten,
    "pytree of a sample": lambda ref: tree_map(str, {"image": ref, "label": 3}),
}


@pytest.fixture
def refs(server: DALIServer) -> list[Any]:
    """Return a reference of each kind."""
    return [server.proxy(sample(1)), BatchRef(Ticket(b"", 1, 2, 3), 0)]


@pytest.mark.combinations
@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_use_as_data_is_refused(refs: list[Any], use: Callable[[Any], Any]) -> None:
    for ref, advice in zip(
        refs,
        ("A collate_fn passes such placeholders", "To get tensors, loop over"),
        strict=True,
    ):
        with pytest.raises(PlaceholderError, match=advice):
            use(ref)


@pytest.mark.parametrize(
    ("use", "shown"),
    [
        (lambda ref: ref / 255, "'/'"),
        (lambda ref: 1 + ref, "'[+]'"),
        (lambda ref: ref.__imul__(2), "'[*]='"),
        (lambda ref: ref[:, 0], r"'\[...\]'"),
        (len, r"'len\(\)'"),
        (np.asarray, "'numpy'"),
        (lambda ref: torch.stack([ref, ref]), "'torch.stack'"),
    ],
)
def test_messages_name_the_use_as_it_is_written(refs: list[Any], use: Callable[[Any], Any], shown: str) -> None:
    with pytest.raises(PlaceholderError, match=f"no data yet, so {shown} isn't possible"):
        use(refs[0])


def test_protocols_find_nothing(refs: list[Any]) -> None:
    for ref in refs:
        assert not hasattr(ref, "__array_interface__")
        assert not hasattr(ref, "_repr_html_")
        assert not callable(ref)
        assert type(ref).__name__ in repr(ref)
        assert ref == ref
        assert ref in [ref]
        assert ref != None  # noqa: E711
        assert len({ref, ref}) == 1
        assert copy.copy(ref) is ref
        assert copy.deepcopy([ref])[0] is ref


def test_placeholders_are_equal_to_themselves_only(refs: list[Any]) -> None:
    one, other = refs
    assert one != other
    assert {one: 1, other: 2}[other] == 2
    assert [one, other].index(other) == 1


def test_pickled_batches_share_their_ticket() -> None:
    ticket = Ticket(b"server", 1, 2, 3)
    one, two = pickle.loads(pickle.dumps((BatchRef(ticket, 0), BatchRef(ticket, 1, 5))))
    assert one.ticket is two.ticket
    assert (one.ticket.server, one.ticket.client, one.ticket.seq, one.ticket.size) == (b"server", 1, 2, 3)
    assert (one.output, one.item, two.output, two.item) == (0, None, 1, 5)


def test_batch_of_a_user_type_may_pin_itself() -> None:
    class Batch:
        images: Any = BatchRef(Ticket(b"server", 1, 2, 3), 0)

        def pin_memory(self) -> Batch:
            self.images = self.images.pin_memory()
            return self

    pinned = pin_memory({"batch": Batch()})  # as in torch, before the batch is produced
    assert pinned["batch"].images is Batch.images


def test_unused_ticket_is_returned() -> None:
    unwanted: list[tuple[int, int]] = []

    def discard(client: int, seq: int) -> None:
        unwanted.append((client, seq))

    discard_through(b"server", discard)
    try:
        ticket = Ticket(b"server", 1, 1, 4)
        travelled = pickle.loads(pickle.dumps(ticket))
        del ticket
        assert unwanted == []  # the holder of the pickle is responsible
        del travelled
        assert unwanted == [(1, 1)]
        fetched = Ticket(b"server", 1, 2, 4)
        fetched.claimed = True
        del fetched
        assert unwanted == [(1, 1)]
    finally:
        forget_discard(b"server", discard)
    del_me = Ticket(b"server", 1, 3, 4)
    del del_me
    assert unwanted == [(1, 1)]


def test_sample_refs_of_one_sample_are_one_batch_when_pickled(server: DALIServer) -> None:
    ref = server.proxy(sample(4))
    assert isinstance(ref, SampleRef)
    one, two = pickle.loads(pickle.dumps((ref, ref)))
    assert one is two
    assert isinstance(one, BatchRef)
    assert server.produce_data([one, two])[1].tolist() == [19, 19, 19]


class Scaled:
    """Scales the tensors of a sample and leaves the rest unchanged, as torchvision's transforms (v2) do."""

    def __call__(self, *inputs: Any) -> Any:
        values, spec = tree_flatten(inputs if len(inputs) > 1 else inputs[0])
        return tree_unflatten([value / 255 if isinstance(value, torch.Tensor) else value for value in values], spec)


def test_transform_behind_the_proxy_is_not_passed_over(server: DALIServer) -> None:
    for inputs in ((server.proxy(sample(1)),), (server.proxy(sample(1)), 3), ({"image": server.proxy(sample(1))},)):
        with pytest.raises(PlaceholderError, match=r"DataLoader\(batch_transform=function\)"):
            Scaled()(*inputs)
    assert Scaled()(torch.ones(1) * 255, 3)[1] == 3


@pytest.mark.parametrize("num_workers", [0, 1])
def test_pickled_samples_are_collated(server: DALIServer, num_workers: int) -> None:
    travelled = pickle.loads(pickle.dumps([(server.proxy(sample(index)), index) for index in range(5)]))
    ((values, labels),) = DataLoader(server, travelled, batch_size=5, num_workers=num_workers)
    assert torch.equal(values, labels[:, None].expand(-1, 3) * 3 + 7)


@pytest.mark.parametrize("ragged", [None, "pad"])
def test_pickled_samples_of_several_shapes(server: DALIServer, ragged: Any) -> None:
    travelled = pickle.loads(pickle.dumps([server.proxy(sample(1, width)) for width in (1, 2)]))
    values = server.produce_data(default_collate(travelled), ragged=ragged)
    assert [each.tolist() for each in values] == ([[10, 0], [10, 10]] if ragged else [[10], [10, 10]])


def test_pickled_sample_is_used_once(server: DALIServer) -> None:
    kept = pickle.dumps([server.proxy(sample(1))])
    assert server.produce_data(default_collate(pickle.loads(kept))).tolist() == [[10, 10, 10]]
    with pytest.raises(BatchError, match=r"Keep the proxy's inputs there\n  submitted by: client [0-9]+$"):
        server.produce_data(default_collate(pickle.loads(kept)))


def test_batches_are_collated_like_tensors(server: DALIServer) -> None:
    batches = [default_collate([server.proxy(sample(index)) for index in pair]) for pair in ((0, 1), (2, 3))]
    stacked = pickle.loads(pickle.dumps(default_collate(batches)))
    assert "2 x BatchRef" in repr(stacked)
    assert server.produce_data([stacked, stacked])[1][:, :, 0].tolist() == [[7, 10], [13, 16]]
