"""DALI's iterators for torch, over pipelines in this process, without a server."""

from dali_proxy._iterators.generic import DALIClassificationIterator, DALIGenericIterator
from dali_proxy._iterators.ragged import DALIRaggedIterator

__all__ = ["DALIClassificationIterator", "DALIGenericIterator", "DALIRaggedIterator"]
