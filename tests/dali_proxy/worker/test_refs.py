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
from torch.utils.data import default_collate
from torch.utils.data._utils.pin_memory import pin_memory

from dali_proxy import BatchError, BatchRef, DALIServer, PlaceholderError, SampleRef
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
}


@pytest.fixture
def refs(server: DALIServer) -> list[Any]:
    """Return a reference of each kind."""
    return [server.proxy(sample(1)), BatchRef(Ticket(b"", 1, 2, 3), 0)]


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_use_as_data_is_refused(refs: list[Any], use: Callable[[Any], Any]) -> None:
    for ref, advice in zip(
        refs, ("A collate_fn passes such placeholders", "collate_fn runs before the pipeline"), strict=True
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


def test_samples_that_were_pickled_are_an_error_that_says_so(server: DALIServer) -> None:
    kept = pickle.dumps(server.proxy(sample(1)))
    with pytest.raises(PlaceholderError, match=r"a sample of the proxy was pickled.*call the proxy in __getitem__"):
        default_collate([pickle.loads(kept)])
    kept = pickle.dumps(server.proxy(sample(1)))
    assert server.produce_data(pickle.loads(kept)).tolist() == [10, 10, 10]
    with pytest.raises(BatchError, match=r"already fetched.* was pickled can be used only once") as caught:
        server.produce_data(pickle.loads(kept))
    assert "pid 0" not in str(caught.value)
