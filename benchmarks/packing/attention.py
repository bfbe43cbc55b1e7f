"""Attention within the sequences of a packed batch."""

from __future__ import annotations

import torch
from torch.nn import functional

__all__ = ["attend"]


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, offsets: torch.Tensor, longest: int, causal: bool
) -> torch.Tensor:
    """Return the attended values of packed sequences, (tokens, heads, width).

    Args:
        query: (tokens, heads, width).
        key: as `query`.
        value: as `query`.
        offsets: where the sequences begin and end, int32.
        longest: length of the longest sequence.
        causal: whether a token sees only those before it.
    """
    if query.is_cuda:
        from torch.nn.attention.varlen import varlen_attn

        window = (-1, 0) if causal else (-1, -1)
        attended = varlen_attn(query, key, value, offsets, offsets, longest, longest, window_size=window)
        assert isinstance(attended, torch.Tensor)
        return attended
    lengths = offsets.diff().tolist()
    parts = zip(*(each.transpose(0, 1).split(lengths, dim=1) for each in (query, key, value)), strict=True)
    return torch.cat(
        [functional.scaled_dot_product_attention(*part, is_causal=causal).transpose(0, 1) for part in parts]
    )
