"""Counting of samples and batches, without pipelines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dali_proxy._common.policies import LastBatchPolicy
from dali_proxy._iterators.progress import Flat, Progress, Sharded, Source
from pipeline.errors import ArgumentValueError


@st.composite
def sources(draw: st.DrawFn) -> Source:
    if draw(st.booleans()):
        return Flat(draw(st.integers(1, 30)), draw(st.integers(1, 3)))
    shards = draw(st.integers(1, 4))
    ids = draw(st.lists(st.integers(0, shards - 1), min_size=1, max_size=shards, unique=True))
    return Sharded(draw(st.integers(shards, 30)), shards, tuple(ids), draw(st.booleans()))


def progress(source: Source, policy: LastBatchPolicy, padded: bool, batch_size: int) -> Progress | None:
    try:
        return Progress(source, policy, padded, batch_size)
    except ArgumentValueError:
        assert policy is LastBatchPolicy.DROP
        return None


ANY = (sources(), st.sampled_from(LastBatchPolicy), st.booleans(), st.integers(1, 8))


@given(*ANY, st.integers(0, 25))
def test_seeking_is_counting(source: Source, policy: LastBatchPolicy, padded: bool, size: int, taken: int) -> None:
    counted = progress(source, policy, padded, size)
    if counted is None:
        return
    for _ in range(taken):
        if counted.share is None:
            counted.next_epoch()
        counted.advance()
    sought = Progress(source, policy, padded, size)
    sought.seek(counted.epoch, counted.batch)
    for _ in range(10):
        assert (sought.share, len(sought), sought.size) == (counted.share, len(counted), counted.size)
        for each in (counted, sought):
            if each.share is None:
                each.next_epoch()
            each.advance()


@given(*ANY)
def test_epoch(source: Source, policy: LastBatchPolicy, padded: bool, batch_size: int) -> None:
    counted = progress(source, policy, padded, batch_size)
    if counted is None:
        return
    for _ in range(4):
        given_batches = []
        while (share := counted.share) is not None:
            counted.advance()
            if share.dropped:
                continue
            given_batches.append([count or 0 for count in share.samples])
        assert len(given_batches) == len(counted) >= 1
        if policy is not LastBatchPolicy.PARTIAL:
            assert all(count == batch_size for batch in given_batches for count in batch)
        elif isinstance(source, Flat) or (isinstance(source, Sharded) and len(source.first) == source.shards):
            assert sum(map(sum, given_batches)) == source.samples
        counted.next_epoch()
