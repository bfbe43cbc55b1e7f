"""What nobody wants is told to the server, also after something was raised."""

from __future__ import annotations

from typing import Any

import pytest

from dali_proxy.transport.protocol import CloseSession, Release
from dali_proxy.unwanted import Unwanted


def test_what_was_not_told_is_told_again() -> None:
    unwanted = Unwanted()
    unwanted.add_batch(1, 2)
    unwanted.add_session(7)
    told: list[Any] = []

    def refuse(message: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unwanted.tell(refuse, lambda batches: None, lambda session: None)
    assert unwanted
    unwanted.add_batch(3, 4)
    unwanted.tell(told.append, lambda batches: None, lambda session: None)
    assert not unwanted
    assert sorted(told[0].unpack()) == [(1, 2), (3, 4)]
    assert isinstance(told[0], Release)
    assert told[1:] == [CloseSession(7)]
