from __future__ import annotations

import os
import resource
import secrets
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import Annotated

import pytest

from dali_proxy.pipeline._ipc import authentication, connecting
from dali_proxy.pipeline._ipc.channel_server import ChannelServer
from dali_proxy.pipeline._ipc.connecting import connect
from dali_proxy.pipeline._ipc.errors import (
    AuthenticationError,
    ChannelClosedError,
    ChannelRefusedError,
    ChannelTimeoutError,
    ProtocolError,
)
from dali_proxy.pipeline._ipc.frames import Codec
from dali_proxy.pipeline._ipc.messages import Message, Meta
from tests.pipeline.ipc.processes import Child, Gate


class Ask(Message, frozen=True):
    number: int
    size: int = 0


class Answer(Message, frozen=True):
    number: int
    data: Annotated[bytes, Meta(max_length=1 << 24)] = b""


CODEC = Codec({1: Ask, 2: Answer})
KEY = secrets.token_bytes(32)


class Echo:
    """A server on a thread that answers every `Ask`; negative numbers make it fail."""

    def __init__(self, path, **options):
        self.path = str(path)
        self.opened: list[int] = []
        self.closed: list[Exception | None] = []
        self.changed = threading.Condition()
        self.server = ChannelServer(CODEC, on_message=self.on_message, on_close=self.on_close, **options)
        self.server.listen(self.path, KEY, self.on_open)
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()

    def on_open(self, channel):
        self.opened.append(channel.peer_pid)

    def on_message(self, channel, received):
        received.close_fds()
        if received.message.number < 0:
            raise KeyError(received.message.number)
        channel.post(Answer(received.message.number, bytes(received.message.size)))

    def on_close(self, channel, error):
        with self.changed:
            self.closed.append(error)
            self.changed.notify_all()

    def wait_closed(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.closed) >= count, 30)
        return self.closed

    def connect(self, **options):
        return connect(self.path, KEY, CODEC, **options)

    def close(self):
        self.server.stop()
        self.thread.join(60)
        assert not self.thread.is_alive()


@pytest.fixture
def echo(tmp_path):
    server = Echo(tmp_path / "s")
    yield server
    server.close()


def test_clients_are_served(echo):
    with echo.connect() as one, echo.connect() as two:
        for number in range(50):
            one.send(Ask(number))
            two.send(Ask(1000 + number))
        for number in range(50):
            assert one.receive(30).message.number == number
            assert two.receive(30).message.number == 1000 + number
        assert one.peer_pid == os.getpid()
    assert echo.wait_closed(2) == [None, None]
    assert echo.opened == [os.getpid()] * 2


def test_client_of_another_process_may_die(echo):
    gate = Gate()

    def talk():
        channel = echo.connect()
        channel.send(Ask(1))
        assert channel.receive(30).message.number == 1
        gate.open()
        signal.pause()

    child = Child(talk)
    gate.wait()
    child.kill()
    assert echo.wait_closed(1) == [None]
    gate.close()


def test_wrong_key_is_refused(echo):
    with pytest.raises(AuthenticationError, match="keys differ"):
        connect(echo.path, b"another", CODEC)
    assert echo.opened == []


def test_server_that_does_not_know_the_key_is_refused(tmp_path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()

    def pretend():
        sock, _ = listener.accept()
        with sock:
            sock.sendall(authentication.ServerHandshake(b"?").greeting)
            sock.recv(64)
            sock.sendall(bytes(32))

    thread = threading.Thread(target=pretend)
    thread.start()
    with pytest.raises(AuthenticationError, match="doesn't know the key"):
        connect(str(tmp_path / "s"), KEY, CODEC)
    thread.join()
    listener.close()


def test_server_that_ends_during_the_handshake_is_not_a_refusal(tmp_path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()

    def die():
        sock, _ = listener.accept()
        with sock:
            sock.sendall(authentication.ServerHandshake(KEY).greeting)
            sock.recv(64)

    thread = threading.Thread(target=die)
    thread.start()
    with pytest.raises(ChannelClosedError, match="closed the connection"):
        connect(str(tmp_path / "s"), KEY, CODEC)
    thread.join()
    listener.close()


def test_proof_cannot_be_replayed_or_reflected():
    one, two = authentication.ServerHandshake(KEY), authentication.ServerHandshake(KEY)
    proof = authentication.ClientHandshake(KEY).proof(one.greeting)
    answer = one.answer(proof)
    with pytest.raises(AuthenticationError):
        two.answer(proof)
    with pytest.raises(AuthenticationError):
        one.answer(proof[:32] + answer)


def test_another_user_is_refused(echo, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(AuthenticationError, match="belongs to user"):
        echo.connect()
    assert echo.opened == []


def test_client_that_never_authenticates_is_dropped_and_delays_no_other(tmp_path):
    patient, strict = Echo(tmp_path / "p"), Echo(tmp_path / "s", handshake_timeout=0.1)
    try:
        for echo in (patient, strict):
            with socket.socket(socket.AF_UNIX) as mute, socket.socket(socket.AF_UNIX) as slow:
                mute.connect(echo.path)
                slow.connect(echo.path)
                slow.sendall(b"half a proof")
                if echo is patient:
                    with echo.connect() as channel:
                        channel.send(Ask(1))
                        assert channel.receive(30).message.number == 1
                    continue
                for sock in (mute, slow):
                    sock.settimeout(30)
                    while sock.recv(100):
                        pass
        assert patient.opened == [os.getpid()]
        assert patient.wait_closed(1) == [None]
        assert strict.opened == []
    finally:
        patient.close()
        strict.close()


@pytest.mark.parametrize("noise", [b"\0" * 64, b"GET / HTTP/1.1\r\n" * 10, bytes(range(256)) * 100])
def test_noise_in_place_of_a_proof_is_dropped(echo, noise):
    with socket.socket(socket.AF_UNIX) as sock, open(os.devnull) as null:
        sock.connect(echo.path)
        socket.send_fds(sock, [noise], [null.fileno()])
        sock.settimeout(30)
        try:
            while sock.recv(100):
                pass
        except ConnectionResetError:
            pass
    assert echo.opened == []


def test_client_that_does_not_read_delays_no_other_and_is_closed(echo):
    with echo.connect() as greedy, echo.connect() as other:
        with suppress(ChannelClosedError):  # the server may have closed the connection before the last message
            for number in range(30):
                greedy.send(Ask(number, 1 << 20))
        other.send(Ask(7))
        assert other.receive(30).message.number == 7
        (error,) = echo.wait_closed(1)
        assert "doesn't read" in str(error)


def test_client_that_reads_slowly_gets_all_messages(echo):
    with echo.connect() as slow:
        for number in range(6):
            slow.send(Ask(number, 1 << 20))
        for number in range(6):
            message = slow.receive(30).message
            assert message.number == number
            assert len(message.data) == 1 << 20


def test_failure_of_a_callback_ends_its_client_only(echo):
    with echo.connect() as bad, echo.connect() as worse, echo.connect() as good:
        bad.send(Ask(-1))
        worse._sock.sendall(b"\xff" * 100)
        errors = echo.wait_closed(2)
        assert {type(error) for error in errors} == {KeyError, ProtocolError}
        good.send(Ask(1))
        assert good.receive(30).message.number == 1
        with pytest.raises(ChannelClosedError):
            bad.receive(30)


def test_calls_from_other_threads_and_timers_run_on_the_server_thread(echo):
    threads = []
    done = threading.Event()

    def later():
        echo.server.call_later(0.01, lambda: (threads.append(threading.current_thread()), done.set()))

    echo.server.call_soon(lambda: threads.append(threading.current_thread()))
    echo.server.call_soon(later)
    assert done.wait(60)
    assert threads == [echo.thread] * 2


def test_calls_of_many_threads_all_run(echo):
    count, done = [0], threading.Semaphore(0)

    def call():
        count[0] += 1
        done.release()

    def call_often():
        for number in range(300):
            echo.server.call_soon(call)
            if number % 3 == 0:  # the server waits again
                assert done.acquire(timeout=60)

    threads = [threading.Thread(target=call_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(4 * 200):
        assert done.acquire(timeout=60)
    assert count == [4 * 300]


def test_bell_rings_once_for_calls_that_wait(echo, monkeypatch):
    rings, begin, done = [], threading.Event(), threading.Event()
    write = os.eventfd_write
    monkeypatch.setattr(os, "eventfd_write", lambda fd, value: (rings.append(fd), write(fd, value)))
    echo.server.call_soon(begin.wait)
    for _ in range(50):
        echo.server.call_soon(lambda: None)
    echo.server.call_soon(done.set)
    begin.set()
    assert done.wait(60)
    assert 1 <= len(rings) <= 2, "the first call may be made before the second one comes"


def test_bell_rings_again_after_an_exception_of_a_signal_handler(echo, monkeypatch):
    done, read = threading.Semaphore(0), os.eventfd_read

    def interrupted(fd):
        read(fd)
        raise RuntimeError("of a signal handler")

    monkeypatch.setattr(os, "eventfd_read", interrupted)
    for _ in range(3):
        echo.server.call_soon(done.release)
        assert done.acquire(timeout=10)


def test_calls_that_a_callback_adds_need_no_bell(echo, monkeypatch):
    rings = []
    ring = ChannelServer._ring
    monkeypatch.setattr(ChannelServer, "_ring", lambda server: rings.append(ring(server)))
    done = threading.Event()

    def first():
        echo.server.call_soon(second)

    def second():
        echo.server.call_later(0, lambda: echo.server.call_soon(done.set))  # after the calls of this turn

    echo.server.call_soon(first)
    assert done.wait(30)
    assert len(rings) == 1


def test_call_of_a_signal_handler_ends_the_wait(tmp_path):
    late = []
    server = ChannelServer(CODEC, on_message=print, on_close=print)
    server.call_later(5, lambda: late.append("the wait ended on its own"))
    before = signal.signal(signal.SIGALRM, lambda *_: server.call_soon(server.stop))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        server.run()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert late == []


def test_calls_that_fail_do_not_end_the_server(echo, capsys):
    gate = Gate()
    gate.open()
    done = threading.Event()

    def fail(word):
        raise LookupError(word)

    def watched():
        echo.server.unwatch(gate.reader)
        fail("watched")

    def begin():
        echo.server.watch(gate.reader, watched)
        echo.server.call_later(0, lambda: fail("later"))
        echo.server.call_later(0.01, done.set)
        fail("soon")

    echo.server.call_soon(begin)
    assert done.wait(60)
    with echo.connect() as client:
        client.send(Ask(5))
        assert client.receive(30).message.number == 5
    gate.close()
    written = capsys.readouterr().err
    assert all(f"LookupError: {word}" in written for word in ("soon", "later", "watched"))


def test_watched_descriptor(echo):
    gate = Gate()
    done = threading.Event()

    def opened():
        echo.server.unwatch(gate.reader)
        done.set()

    echo.server.call_soon(lambda: echo.server.watch(gate.reader, opened))
    gate.open()
    assert done.wait(60)
    gate.close()


def test_stopping_ends_all_clients_and_removes_the_socket(tmp_path):
    echo = Echo(tmp_path / "s")
    with echo.connect() as channel:
        echo.close()
        with pytest.raises(ChannelClosedError):
            channel.receive(30)
    assert not os.path.exists(echo.path)
    assert echo.wait_closed(1) == [None]
    with pytest.raises(ChannelClosedError, match="no server listens"):
        echo.connect()
    echo.server.stop()
    echo.server.call_soon(lambda: None)
    echo.server.close()


def test_socket_that_a_dead_server_left_is_replaced(tmp_path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
    with pytest.raises(ChannelClosedError, match="no server listens"):
        connect(str(tmp_path / "s"), KEY, CODEC)
    echo = Echo(tmp_path / "s")
    echo.connect().close()
    echo.close()


def test_directory_may_be_removed_while_in_use(tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    echo = Echo(folder / "s")
    with echo.connect() as channel:
        os.unlink(echo.path)
        folder.rmdir()
        channel.send(Ask(1))
        assert channel.receive(30).message.number == 1
    echo.close()


def test_path_longer_than_a_socket_address(tmp_path):
    folder = tmp_path / ("d" * 120)
    folder.mkdir()
    echo = Echo(folder / "s")
    echo.connect().close()
    echo.close()
    assert not os.path.exists(echo.path)


def test_listener_that_does_not_answer(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(0)
        started = time.monotonic()
        with pytest.raises(ChannelTimeoutError, match="didn't answer"):
            connect(str(tmp_path / "s"), KEY, CODEC, timeout=0.2)
        with socket.socket(socket.AF_UNIX) as first:  # its queue is full now
            first.setblocking(False)
            try:
                first.connect(str(tmp_path / "s"))
            except BlockingIOError:
                pass
            with pytest.raises(ChannelTimeoutError, match="didn't answer"):
                connect(str(tmp_path / "s"), KEY, CODEC, timeout=0.2)
        assert time.monotonic() - started < 20


def test_forked_child_does_not_keep_the_server_open(tmp_path):
    echo = Echo(tmp_path / "s")
    channel = echo.connect()
    gate = Gate()
    child = Child(gate.wait)
    echo.close()
    with pytest.raises(ChannelClosedError):
        channel.receive(30)
    with pytest.raises(ChannelClosedError):
        echo.connect()
    gate.open()
    child.join()
    gate.close()
    channel.close()


def test_forked_child_can_close_inherited_objects_safely(echo):
    with echo.connect() as channel:

        def close():
            channel.close()
            echo.server.close()

        Child(close).join()
        assert os.path.exists(echo.path)
        channel.send(Ask(3))
        assert channel.receive(30).message.number == 3


def test_too_many_clients_are_refused(tmp_path):
    echo = Echo(tmp_path / "s", max_clients=2)
    with echo.connect() as one, echo.connect():
        with pytest.raises(ChannelClosedError):
            echo.connect()
        one.send(Ask(1))
        assert one.receive(30).message.number == 1
    echo.close()


def test_server_without_descriptors_refuses_clients_and_continues(tmp_path):
    gate, ready = Gate(), Gate()
    path = str(tmp_path / "s")

    def serve():
        echo = Echo(path)
        with echo.connect() as channel:
            lowest_free = os.dup(0)
            os.close(lowest_free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, lowest_free))
            ready.open()
            gate.wait()
            channel.send(Ask(1))
            assert channel.receive(30).message.number == 1
            before = time.thread_time()
        echo.close()
        assert time.thread_time() - before < 1

    child = Child(serve)
    ready.wait()
    for _ in range(3):
        with pytest.raises(ChannelRefusedError, match="no file descriptor left for another client"):
            connect(path, KEY, CODEC, timeout=60)
    gate.open()
    child.join()
    gate.close()
    ready.close()


def test_listener_replaces_the_descriptor_that_it_gave_up(tmp_path):
    listener = connecting.Listener(str(tmp_path / "s"), KEY, CODEC)
    os.close(listener._reserve)
    listener._reserve = -1  # another thread took the number before the listener could open it again
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(listener.path)
        channel = listener.accept()
        assert channel is not None
        channel.close()
    assert listener._reserve >= 0
    listener.close()


def test_client_is_told_why_an_error_ended_its_channel(tmp_path):
    echo = Echo(tmp_path / "s", farewell=lambda error: Answer(error.args[0]))
    with echo.connect() as channel:
        channel.send(Ask(-17))
        assert channel.receive(30).message.number == -17
        with pytest.raises(ChannelClosedError):
            channel.receive(30)
    echo.close()


def test_hundreds_of_connections_leave_no_descriptor_behind(echo):
    echo.connect().close()
    echo.wait_closed(1)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(200):
        echo.connect().close()
    echo.wait_closed(201)
    assert len(os.listdir("/proc/self/fd")) <= before
    assert connecting.Listener is not None
