"""Errors of the communication between two processes."""

from __future__ import annotations

from dali_proxy.pipeline.errors import PipelineError


class IPCError(PipelineError):
    """Base class of the errors of this package."""


class ProtocolError(IPCError):
    """The peer sent something that the protocol doesn't allow: its channel can't be used any more."""


class AuthenticationError(IPCError):
    """The peer belongs to another user, or doesn't know the key."""


class ChannelClosedError(IPCError):
    """The channel was closed on this side, or the peer closed it or died."""


class ChannelTimeoutError(IPCError, TimeoutError):
    """The peer is alive, but didn't answer (or read) in time."""


class ChannelOverflowError(IPCError):
    """The peer reads too slowly, and the bounded outgoing buffer is full."""


class DescriptorLimitError(IPCError):
    """The process has no file descriptor left; ``ulimit -n`` is the limit to raise."""


class ChannelRefusedError(ChannelClosedError):
    """A server listens, but can't accept another client."""


class ArenaFullError(IPCError):
    """A sample doesn't fit into the shared memory, which has reached its limit."""
