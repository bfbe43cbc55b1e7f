"""Iterators over pipelines in this process, with no server: DALI's, for torch."""

from dali_proxy._iterators.generic import DALIClassificationIterator, DALIGenericIterator
from dali_proxy._iterators.ragged import DALIRaggedIterator

__all__ = ["DALIClassificationIterator", "DALIGenericIterator", "DALIRaggedIterator"]
