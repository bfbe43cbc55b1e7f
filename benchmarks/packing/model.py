"""A small vision-language model whose sequences are packed, or padded to the longest."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.packing.attention import attend
from benchmarks.packing.samples import GRID

__all__ = ["Block", "Model"]


class Block(nn.Module):
    """A transformer block over packed sequences, or over a padded batch."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.mixed, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, offsets: torch.Tensor | None, longest: int, causal: bool) -> torch.Tensor:
        """Return the block's output.

        Args:
            x: (tokens, width), or (batch, tokens, width) without `offsets`.
            offsets: where the sequences begin and end.
            longest: length of the longest sequence.
            causal: whether a token sees only those before it.
        """
        shape = (*x.shape[:-1], 3, self.heads, -1)
        parts = self.mixed(self.norms[0](x)).view(shape).unbind(-3)
        if offsets is None:
            query, key, value = (part.transpose(1, 2) for part in parts)
            attended = functional.scaled_dot_product_attention(query, key, value, is_causal=causal).transpose(1, 2)
        else:
            query, key, value = (part.contiguous() for part in parts)
            attended = attend(query, key, value, offsets, longest, causal)
        x = x + self.joined(attended.reshape(x.shape))
        return x + self.wide(self.norms[1](x))


class Model(nn.Module):
    """A vision transformer whose patches, four at a time, are tokens of a language model.

    Args:
        width: width of both.
        depth: blocks of each.
        vocabulary: number of tokens.
    """

    def __init__(self, width: int = 768, depth: int = 8, vocabulary: int = 32_000) -> None:
        super().__init__()
        heads = max(1, width // 64)
        self.embedded = nn.Linear(GRID.features, width)
        self.vision = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.merged = nn.Linear(4 * width, width)
        self.tokens = nn.Embedding(vocabulary, width)
        self.language = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.head = nn.Linear(width, vocabulary)

    def forward(self, batch: dict[str, Any]) -> torch.Tensor:
        """Return the loss of a batch: `pixel_values`, `images` (offsets), `input_ids`, `cu_seqlens`, `is_image`."""
        x = self.embedded(batch["pixel_values"])
        for block in self.vision:
            x = block(x, batch["images"], batch["longest_image"], False)
        seen = self.merged(x.reshape(-1, 4 * x.shape[-1]))
        ids = batch["input_ids"]
        text = self.tokens(ids)
        text = text.masked_scatter(batch["is_image"][..., None], seen.to(text.dtype))
        for block in self.language:
            text = block(text, batch["cu_seqlens"], batch["longest"], True)
        scores = self.head(text).flatten(0, -2)
        return functional.cross_entropy(scores[:-1].float(), ids.flatten()[1:], ignore_index=0)
