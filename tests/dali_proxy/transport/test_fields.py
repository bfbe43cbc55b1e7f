from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dali_proxy._transport.fields import clip, clip_start, pack_labels, unpack_labels
from dali_proxy._transport.protocol import CODEC, Submit

INDICES = st.one_of(st.none(), st.integers(), st.text(max_size=9), st.tuples(st.integers(), st.text(max_size=3)))


@given(st.text(), st.integers(3, 50))
def test_clipped_text_fits(text, nbytes):
    clipped = clip(text, nbytes)
    assert len(clipped.encode()) <= nbytes
    if len(text.encode()) <= nbytes:
        assert clipped == text


@given(st.lists(INDICES, min_size=1, max_size=6))
def test_labels_are_the_indices_as_text(indices):
    text = pack_labels(indices)
    labels = unpack_labels(text, len(indices))
    expected = tuple("" if index is None else clip(str(index).replace("\0", "?")) for index in indices)
    assert labels == (expected if any(expected) or (len(expected) > 1 and text) else ())
    message = Submit(seq=0, session=0, epoch=0, batch=0, view=0, batch_size=len(indices), indices=text, inputs=())
    assert CODEC.decode(*CODEC.encode(message)) == message


def test_batch_whose_labels_are_too_long_for_a_message_has_none():
    assert unpack_labels(pack_labels(["x" * 5000] * 2), 2) == (clip("x" * 5000),) * 2
    assert pack_labels(["é" * 5000] * 2000) == ""


def test_labels_of_another_number_of_samples_are_dropped():
    assert unpack_labels(pack_labels([1, 2, 3]), 2) == ()
    assert unpack_labels("", 4) == ()


def test_clip_keeps_text_that_is_not_unicode():
    assert clip("\udc80") == "\udc80"
    assert clip("\udc80" * 5000) == "..."


def test_clip_start_keeps_the_end():
    assert clip_start("first last", 4) == "last"
    assert clip_start("\udc80 last", 20) == "\udc80 last"
    assert clip_start("\udc80 last", 6) == " last"
