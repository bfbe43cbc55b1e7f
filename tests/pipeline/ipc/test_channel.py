from __future__ import annotations

import array
import errno
import os
import resource
import socket
import struct
import sys
import threading
from typing import Annotated
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dali_proxy.pipeline._ipc import frames
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.errors import (
    ChannelClosedError,
    ChannelOverflowError,
    ChannelTimeoutError,
    DescriptorLimitError,
    ProtocolError,
)
from dali_proxy.pipeline._ipc.frames import MAX_BODY, MAX_FRAME_FDS, Codec, FrameParser, encode_frame
from dali_proxy.pipeline._ipc.messages import Message, Meta
from tests.pipeline.ipc.processes import Child, Gate


class Note(Message, frozen=True):
    number: int
    data: Annotated[bytes, Meta(max_length=1 << 24)] = b""


CODEC = Codec({7: Note})


@pytest.fixture
def channels():
    left, right = (Channel(sock, CODEC) for sock in socket.socketpair())
    yield left, right
    left.close()
    right.close()


@pytest.fixture
def raw():
    """A channel and a bare socket at its other end."""
    ours, theirs = Channel.pair(CODEC)
    yield ours, theirs
    ours.close()
    theirs.close()


def test_messages_arrive_in_order_both_ways(channels):
    left, right = channels
    for number in range(100):
        left.send(Note(number))
        right.send(Note(-number, b"x" * number))
    for number in range(100):
        assert right.receive(1).message == Note(number)
        assert left.receive(1).message == Note(-number, b"x" * number)


def test_large_message_needs_a_reader_and_gets_through(channels):
    left, right = channels
    data = os.urandom(5 << 20)
    thread = threading.Thread(target=left.send, args=(Note(1, data),))
    thread.start()
    assert right.receive(30).message.data == data
    thread.join()


def test_descriptors_travel_with_their_message(channels):
    left, right = channels
    for number in range(20):
        fd = os.memfd_create(str(number))
        os.write(fd, b"%d" % number)
        left.send(Note(number, bytes(number * 1000)), (fd,) * (number % 3))
        os.close(fd)
    for number in range(20):
        received = right.receive(1)
        assert received.message.number == number
        assert len(received.fds) == number % 3
        for fd in received.fds:
            assert not os.get_inheritable(fd)
            assert os.pread(fd, 10, 0) == b"%d" % number
        received.close_fds()


def test_hundreds_of_descriptors_travel_with_one_message():
    left, right = (Channel(sock, CODEC, max_fds=MAX_FRAME_FDS) for sock in socket.socketpair())
    pipes = [os.pipe() for _ in range(150)]
    try:
        left.post(Note(0, b"x" * (1 << 20)))  # the socket is full: later messages wait
        left.post(Note(1), [writing for _, writing in pipes])
        for _, writing in pipes:
            os.close(writing)
        left.post(Note(2))
        received = {}
        while len(received) < 3:
            left.flush()
            received.update({each.message.number: each for each in right.receive_ready(rest=True)})
        for number, fd in enumerate(received[1].fds):
            os.write(fd, b"%d" % number)
            assert os.read(pipes[number][0], 10) == b"%d" % number
        received[1].close_fds()
        assert all(os.read(reading, 1) == b"" for reading, _ in pipes)  # no other process has them open
    finally:
        for reading, _ in pipes:
            os.close(reading)
        left.close()
        right.close()


def test_message_that_no_copy_of_its_descriptor_can_wait_for_arrives_whole(raw, monkeypatch):
    """The socket is full, no descriptor is free for a copy, and then there is room for a part of the message."""
    ours, theirs = raw
    theirs.setblocking(False)
    parser, arrived = FrameParser(), []

    def read():
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(theirs, 1 << 20, 4)
            except BlockingIOError:
                return
            arrived.extend(parser.feed(data, fds))

    def dup(_fd):
        read()
        raise OSError(errno.EMFILE, "Too many open files")

    count = 0
    while not ours.backlog:
        ours.post(Note(count, bytes(1000)))
        count += 1
    data = os.urandom(5 << 20)
    with open(os.devnull) as null, monkeypatch.context() as patch:
        patch.setattr(os, "dup", dup)
        ours.post(Note(-1, data), (null.fileno(),))
    while len(arrived) <= count:
        ours.flush()
        read()
    messages = [CODEC.decode(frame.number, frame.body) for frame in arrived]
    assert [message.number for message in messages] == [*range(count), -1]
    assert messages[-1].data == data
    assert len(arrived[-1].fds) == 1
    frames.close_all(arrived[-1].fds)


def test_message_that_is_interrupted_in_the_middle_arrives_whole():
    ours, theirs = socket.socketpair()
    left, right = Channel(ours, CODEC), Channel(theirs, CODEC, max_fds=MAX_FRAME_FDS)
    with left, right, open(os.devnull) as null:
        sock = left._outgoing._sock = mock.Mock(wraps=ours)
        refusal = OSError(errno.ETOOMANYREFS, "Too many references: cannot splice")
        sock.sendmsg.side_effect = [mock.DEFAULT, refusal, *[mock.DEFAULT] * 9]
        with pytest.raises(DescriptorLimitError):
            left.post(Note(1), (null.fileno(),) * 100)
        left.send(Note(2))
        first, second = right.receive(1), right.receive(1)
        assert (first.message, second.message) == (Note(1), Note(2))
        assert len(first.fds) == 100
        first.close_fds()


def test_posting_never_waits_and_keeps_descriptors_alive(channels):
    left, right = channels
    for number in range(40):  # more than the socket's buffer
        fd = os.memfd_create(str(number))
        os.write(fd, b"%d" % number)
        left.post(Note(number, bytes(100_000)), (fd,))
        os.close(fd)
    assert left.backlog
    seen = 0
    while seen < 40:
        for received in right.receive_ready():
            assert received.message.number == seen
            assert os.pread(received.fds[0], 10, 0) == b"%d" % seen
            received.close_fds()
            seen += 1
        left.flush()
    assert not left.backlog


def flood(channel):
    for number in range(1000):
        channel.post(Note(number, bytes(100_000)))


def test_posting_to_a_peer_that_does_not_read_overflows(channels):
    left, _ = channels
    with pytest.raises(ChannelOverflowError, match="doesn't read"):  # and doesn't wait: there will never be a reader
        flood(left)


def test_deadlines(channels):
    left, right = channels
    with pytest.raises(ChannelTimeoutError):
        left.receive(0.05)
    with pytest.raises(ChannelTimeoutError):
        left.send(Note(1, bytes(4 << 20)), timeout=0.05)
    assert isinstance(ChannelTimeoutError(), TimeoutError)
    thread = threading.Thread(target=left.send, args=(Note(2),))  # the message that timed out goes first, completely
    thread.start()
    assert len(right.receive(30).message.data) == 4 << 20
    assert right.receive(30).message == Note(2)
    thread.join()


def test_end_comes_after_the_sent_messages(channels):
    left, right = channels
    left.send(Note(1))
    left.close()
    assert not right.alive()
    assert right.receive(1).message == Note(1)
    with pytest.raises(ChannelClosedError):
        right.receive(1)
    with pytest.raises(ChannelClosedError):
        right.send(Note(2))
    with pytest.raises(ChannelClosedError, match="closed"):
        left.send(Note(3))
    assert left.fileno() == -1


@pytest.mark.parametrize("waiting", ["receive", "send"])
def test_closing_wakes_a_thread_that_waits(channels, waiting):
    left, _ = channels
    errors = []

    def wait() -> None:
        try:
            left.receive() if waiting == "receive" else left.send(Note(1, bytes(8 << 20)))
        except ChannelClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not left._users:
        pass
    left.close()
    thread.join(60)
    assert len(errors) == 1


def test_killed_peer_is_detected():
    ours, theirs = Channel.pair(CODEC)
    gate = Gate()
    child = Child(gate.wait)
    theirs.close()
    timer = threading.Timer(0.1, child.kill)
    timer.start()
    with pytest.raises(ChannelClosedError, match="closed the connection, or died"):
        ours.receive(30)
    timer.join()
    ours.close()
    gate.close()


def test_many_threads_send_and_messages_stay_whole(channels):
    left, right = channels
    threads = [
        threading.Thread(target=lambda k=k: [left.send(Note(k, bytes([k]) * 9000)) for _ in range(50)])
        for k in range(4)
    ]
    for thread in threads:
        thread.start()
    counts = [0] * 4
    for _ in range(200):
        note = right.receive(30).message
        assert note.data == bytes([note.number]) * 9000
        counts[note.number] += 1
    assert counts == [50] * 4
    for thread in threads:
        thread.join()


def test_forked_child_neither_uses_the_channel_nor_keeps_it_open(channels):
    left, right = channels
    gate = Gate()

    def use() -> None:
        with pytest.raises(ChannelClosedError, match="forked"):
            left.send(Note(1))
        gate.wait()

    child = Child(use)
    right.send(Note(5))
    assert left.receive(1).message == Note(5)
    left.close()
    with pytest.raises(ChannelClosedError):  # although the child lives
        right.receive(30)
    gate.open()
    child.join()
    gate.close()


def test_forked_child_drops_a_channel_that_a_thread_was_reading(channels, monkeypatch):
    left, right = channels
    reading, forked = threading.Event(), threading.Event()

    def copy(view: memoryview) -> bytes:
        reading.set()
        assert forked.wait(60)
        return view.tobytes()

    monkeypatch.setattr(frames, "bytes", copy, raising=False)
    reader = threading.Thread(target=right.receive, args=(60,))
    left.send(Note(1))
    reader.start()
    assert reading.wait(60)
    errors: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)
    child = os.fork()
    if child == 0:  # Python would only print an error, but the channels after this one would stay open
        os._exit(len(errors))
    forked.set()
    reader.join()
    assert os.waitpid(child, 0)[1] == 0


def test_message_that_is_refused_closes_the_channel_and_its_descriptors(raw):
    ours, theirs = raw
    fds = len(os.listdir("/proc/self/fd"))
    number, body = CODEC.encode(Note(1))
    for bad in (encode_frame(8, body, 1), encode_frame(number, body + b"\0", 1)):
        other, sock = Channel.pair(CODEC)
        with sock, open(os.devnull) as null:
            socket.send_fds(sock, [bad], [null.fileno()])
            with pytest.raises(ProtocolError):
                other.receive(1)
            assert other.closed
            assert sock.recv(1) == b""
    assert len(os.listdir("/proc/self/fd")) <= fds
    assert ours.alive()
    assert theirs.fileno() >= 0


def header(length, number=7, fds=0):
    return struct.pack("<IHH", length, number, fds)


@pytest.mark.parametrize(
    "data", [header(MAX_BODY + 1), header(0xFFFFFFFF), header(0, fds=0xFFFF), header(1, fds=1) + b"\x90"]
)
def test_headers_over_the_limit_are_refused_at_once(raw, data):
    ours, theirs = raw
    theirs.sendall(data)
    with pytest.raises(ProtocolError):
        ours.receive(1)


def test_unannounced_descriptors_are_refused(raw):
    ours, theirs = raw
    number, body = CODEC.encode(Note(1))
    with open(os.devnull) as null:
        socket.send_fds(theirs, [encode_frame(number, body, 0)], [null.fileno()] * 3)
    with pytest.raises(ProtocolError, match="weren't announced by a message"):
        ours.receive(1)


def test_too_many_descriptors_are_refused(raw):
    ours, theirs = raw
    number, body = CODEC.encode(Note(1))
    rights = array.array("i", [0] * 200)
    theirs.sendmsg([encode_frame(number, body, 1)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    with pytest.raises((ProtocolError, DescriptorLimitError)):
        ours.receive(1)


def test_running_out_of_descriptors_is_an_error(raw):
    ours, theirs = raw
    number, body = CODEC.encode(Note(1))
    with open(os.devnull) as null:
        socket.send_fds(theirs, [encode_frame(number, body, 8)], [null.fileno()] * 8)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 2, hard))
        with pytest.raises(DescriptorLimitError, match="ulimit -n"):
            ours.receive(1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@given(st.lists(st.binary(max_size=200), max_size=8), st.integers(1, 50))
def test_frames_are_found_in_any_pieces(bodies, size):
    stream = b"".join(encode_frame(7, body, 0) for body in bodies)
    parser = FrameParser()
    found = []
    for start in range(0, len(stream), size):
        assert parser.missing > 0
        found += parser.feed(stream[start : start + size])
    assert [frame.body for frame in found] == bodies


def receive_to_the_end(channel):
    while True:
        assert isinstance(channel.receive(30).message, Note)


@given(st.binary(min_size=1, max_size=300), st.booleans())
@settings(max_examples=150, deadline=None)
def test_noise_ends_the_channel_or_is_waited_for(data, small):
    ours, theirs = Channel.pair(CODEC)
    with ours, theirs:
        theirs.sendall(header(len(data)) + data if small else data)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises((ProtocolError, ChannelClosedError)):
            receive_to_the_end(ours)
