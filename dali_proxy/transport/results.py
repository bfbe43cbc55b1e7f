"""Results on their way: the server stages and publishes them, the training process opens them as torch tensors."""

from __future__ import annotations

from dali_proxy.transport.exchange import LocalExchange
from dali_proxy.transport.opener import ResultOpener
from dali_proxy.transport.publisher import Consumer, ResultPublisher, StagedResult

__all__ = ["Consumer", "LocalExchange", "ResultOpener", "ResultPublisher", "StagedResult"]
