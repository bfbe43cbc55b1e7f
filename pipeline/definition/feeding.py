"""Checks of what users feed; see `pipeline.external_source.data`."""

from __future__ import annotations

from pipeline.external_source.data import check_batch, own_copy, to_batch, to_sample

__all__ = ["check_batch", "own_copy", "to_batch", "to_sample"]
