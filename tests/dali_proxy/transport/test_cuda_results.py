"""Results on a GPU, with a server in a separate process: a process can't open CUDA memory that it exported."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from dali_proxy._host.driver_files import remove_driver_files
from dali_proxy._transport.opener import ResultOpener
from dali_proxy._transport.protocol import CODEC, Fetch, SlotsDetached, Stats, StatsRequest, Welcome
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.errors import ChannelClosedError
from tests.environment import with_project

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]

_SERVER = """
import json, socket, sys
import cupy
from dali_proxy._transport.protocol import CODEC, Fetch, SlotsDetached, Stats, Welcome
from dali_proxy._transport.publisher import ResultPublisher
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.errors import ChannelClosedError
from tests.environment import with_project
from pipeline.tensors.gpu import TensorListGPU

publisher = ResultPublisher(0)
consumer = publisher.account()
channel = Channel(socket.socket(fileno=int(sys.argv[1])), CODEC)
channel.send(Welcome(client=1, server=bytes(16), control_nbytes=consumer.control_nbytes), consumer.control_fds)
stream = cupy.cuda.Stream(non_blocking=True)
try:
    while True:
        message = channel.receive(60).message
        if isinstance(message, Fetch):
            with stream:
                dense = cupy.empty((64, 512, 512), cupy.int32)
                for step in range(20):  # long enough to detect a result that is sent too early
                    dense.fill(-step)
                dense.fill(message.seq)
                ragged = [cupy.full((length, 3), length, cupy.float16) for length in (4, 1, 7)]
                ready = stream.record()
                outputs = [TensorListGPU(dense, "HW", ready=ready), TensorListGPU(ragged, ready=ready)]
                staged = publisher.stage(outputs)
            staged.wait()
            channel.send(*publisher.publish(consumer, message.client, message.seq, staged))
        else:
            publisher.trim()
            numbers = consumer.take_detached()
            if numbers:
                channel.send(SlotsDetached(numbers))
            stats = publisher._cuda.pool.stats()
            channel.send(Stats(message.token, json.dumps([stats.slots, stats.lent])))
except ChannelClosedError:
    consumer.close()
    publisher.close()
"""


class Server:
    def __init__(self) -> None:
        self.channel, theirs = Channel.pair(CODEC)
        with theirs:
            command = [sys.executable, "-c", _SERVER, str(theirs.fileno())]
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=with_project())
        received = self.channel.receive(60)
        assert isinstance(received.message, Welcome)
        self.opener = ResultOpener(received.fds, received.message.control_nbytes)

    def fetch(self, seq):
        self.channel.send(Fetch(1, seq))
        received = self.channel.receive(60)
        return self.opener.receive(received.message, received.fds).tensors()

    def stats(self):
        self.channel.send(StatsRequest(0))
        message = self.channel.receive(60).message
        if isinstance(message, SlotsDetached):
            self.opener.detach(message.slots)
            message = self.channel.receive(60).message
        assert isinstance(message, Stats)
        return message.text

    def close(self):
        self.opener.close()
        self.channel.close()
        assert self.process.wait(30) == 0
        remove_driver_files(self.process.pid)


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


def test_results_are_complete_when_they_arrive(server):
    for seq in range(50):
        dense, ragged = server.fetch(seq)
        low, high = dense.aminmax()
        assert (int(low), int(high)) == (seq, seq)
        assert dense.shape == (64, 512, 512)
        assert [tensor.tolist() for tensor in ragged] == [[[n] * 3] * n for n in (4, 1, 7)]
    del dense, ragged, low, high
    server.stats()  # frees idle slots once they are unmapped here
    assert server.stats() == "[0, 0]"


def test_held_results_are_not_overwritten(server):
    held = [server.fetch(seq)[0] for seq in range(8)]
    for seq in range(8, 20):
        server.fetch(seq)
    for seq, tensor in enumerate(held):
        assert torch.equal(tensor, torch.full_like(tensor, seq))


def test_slot_is_reused_after_the_readers_work_only(server):
    totals = []
    for seq in range(30):
        dense, _ = server.fetch(seq)
        total = dense.float()
        for _ in range(20):  # work that still runs when the tensor is dropped
            total = total * 1.0 + dense - seq
        totals.append(total)
        del dense
    for seq, total in enumerate(totals):
        assert float(total.min()) == float(total.max()) == seq


def test_end_of_a_server_is_detected(server):
    server.process.kill()
    with pytest.raises(ChannelClosedError):
        server.fetch(0)
    server.process.wait()
    server.process.returncode = 0
