"""`PackedCollate`: packs the samples of a batch one after another, without padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dali_proxy._loader.patch_grid import PatchGrid
from dali_proxy._worker.placeholders import BatchRef, PackedRefs, Placeholder, SampleRef, collate_sample_refs
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError


class PackedCollate:
    """Collate function for batches of `PackedBatchSampler`: packs samples one after another, without padding.

    A sample is a mapping. In the batch, the values of each key are concatenated along their first dimension; a sample
    may lack keys. A list of placeholders (results of the proxy) has any number of images or videos: their patches
    become one tensor, (patches, features). Numbers become a tensor with one for each sample. Anything else becomes a
    list.

    The batch has these keys, too:

    - `cu_seqlens`, int32 (samples + 1): where the sample's tokens begin and end, as FlashAttention needs them;
    - `max_seqlen`: the longest sample's number of tokens;
    - `position_ids`: of each token in its sample, (tokens,); with `vision`, (3, tokens): time, row and column, as for
      multimodal rotary embeddings (M-RoPE) of Qwen2-VL.

    Args:
        tokens: key of the tokens.
        vision: for each token that stands for a part of an image or a video: the key of the grids of these, (number, 3)
            for each sample, as `PatchGrid.thw` returns them.
        grid: the patches. Required for `vision`, and for batches without images, whose patches are an empty tensor of
            float32 on the CPU.

    Raises:
        ArgumentTypeError: by calls: a sample isn't a mapping, or has no tokens.
        ArgumentValueError: by calls: the tokens of a sample don't fit its images.

    Example:
        >>> batch = PackedCollate()([{"input_ids": [1, 2, 3], "label": 0}, {"input_ids": [4, 5], "label": 1}])
        >>> batch["input_ids"], batch["cu_seqlens"].tolist(), batch["label"]
        (tensor([1, 2, 3, 4, 5]), [0, 3, 5], tensor([0, 1]))
    """

    def __init__(
        self, tokens: str = "input_ids", vision: Mapping[int, str] | None = None, grid: PatchGrid | None = None
    ) -> None:
        if vision and grid is None:
            raise ArgumentValueError("PackedCollate needs grid= for the positions of vision=")
        self._tokens, self._vision, self._grid = tokens, dict(vision or {}), grid

    def __call__(self, samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the batch."""
        for sample in samples:
            if not isinstance(sample, Mapping) or self._tokens not in sample:
                raise ArgumentTypeError(f"PackedCollate needs samples that are mappings with the key {self._tokens!r}")
        batch: dict[str, Any] = {}
        for key in dict.fromkeys(chain.from_iterable(samples)):
            values = [sample[key] for sample in samples if key in sample]
            if key in self._vision.values():
                batch[key] = torch.from_numpy(np.concatenate([_as_grids(value) for value in values]))
            else:
                batch[key] = self._packed(values)
        lengths = [len(sample[self._tokens]) for sample in samples]
        batch["cu_seqlens"] = torch.tensor([0, *np.cumsum(lengths).tolist()], dtype=torch.int32)
        batch["max_seqlen"] = max(lengths)
        batch.setdefault("position_ids", torch.cat([self._positions(sample) for sample in samples], dim=-1))
        return batch

    def _packed(self, values: list[Any]) -> Any:
        several = [value if isinstance(value, list | tuple) else [value] for value in values]
        flat = list(chain.from_iterable(several))
        if any(isinstance(each, Placeholder) for each in flat):
            return _packed_refs(flat)
        if not flat and self._grid is not None:
            return torch.empty((0, self._grid.features))
        try:
            tensors = [torch.as_tensor(value) for value in values]
        except (TypeError, ValueError, RuntimeError):
            return values
        return torch.stack(tensors) if tensors[0].ndim == 0 else torch.cat(tensors)

    def _positions(self, sample: Mapping[str, Any]) -> torch.Tensor:
        tokens = np.asarray(sample[self._tokens])
        if not self._vision:
            return torch.arange(len(tokens))
        assert self._grid is not None  # see __init__
        grids = {token: _as_grids(sample.get(key, ())) for token, key in self._vision.items()}
        return torch.from_numpy(vision_positions(tokens, grids, self._grid.merge_size))


def _as_grids(values: Any) -> npt.NDArray[np.int64]:
    return np.asarray(values, np.int64).reshape(-1, 3)


def _packed_refs(refs: Sequence[Any]) -> PackedRefs:
    """Submit the images of a batch, and return the placeholder of all their patches."""
    batches: list[BatchRef] = []
    waiting: list[SampleRef] = []

    def submit() -> None:
        if waiting:
            batches.append(collate_sample_refs(waiting))
            waiting.clear()

    for ref in refs:
        if isinstance(ref, SampleRef):
            if len(waiting) == ref.sample.client.endpoint.max_batch_size:
                submit()
            waiting.append(ref)
        elif isinstance(ref, BatchRef):
            submit()
            batches.append(ref)
        else:
            raise ArgumentTypeError(f"a list mixes results of the proxy and {type(ref).__name__}")
    submit()
    return PackedRefs(tuple(batches))


def vision_positions(
    tokens: npt.NDArray[Any], grids: Mapping[int, npt.NDArray[np.int64]], merge_size: int
) -> npt.NDArray[np.int64]:
    """Return the positions of a sample's tokens in time, rows and columns, (3, N), as Qwen2-VL defines them.

    Text counts on in all three. The tokens of an image have its first position plus their own time, row and column; the
    text behind it continues after the largest of these.

    Args:
        tokens: the tokens, (N,).
        grids: for each token of images or videos, their numbers of patches, (number, 3), in the order of the text.
        merge_size: side of the squares of patches that are one token.

    Raises:
        ArgumentValueError: the tokens don't fit the grids.

    Example:
        >>> vision_positions(np.array([7, 1, 1, 8]), {1: np.array([[1, 2, 4]])}, 2).tolist()
        [[0, 1, 1, 3], [0, 1, 1, 3], [0, 1, 2, 3]]
    """
    found: list[tuple[int, npt.NDArray[np.int64]]] = []  # first token and grid of each image
    for token, given in grids.items():
        merged = given // np.array([1, merge_size, merge_size])
        counts, places = merged.prod(axis=1), np.flatnonzero(tokens == token)
        if counts.sum() != len(places):
            raise ArgumentValueError(
                f"the text has {len(places)} tokens {token}, but its images have {counts.sum()}: repeat the token "
                "as often as PatchGrid.tokens says"
            )
        firsts = places[np.cumsum(counts) - counts]
        if (places[np.cumsum(counts) - 1] - firsts != counts - 1).any():
            raise ArgumentValueError(f"the tokens {token} of an image aren't adjacent in the text")
        found += zip(firsts.tolist(), merged, strict=True)
    positions = np.empty((3, len(tokens)), np.int64)
    done = start = 0  # tokens, and the next position
    for first, grid in sorted(found, key=lambda each: each[0]):
        text, count = first - done, int(grid.prod())
        positions[:, done:first] = start + np.arange(text)
        start += text
        positions[:, first : first + count] = start + np.indices(grid.tolist()).reshape(3, -1)
        start, done = start + int(grid.max()), first + count
    positions[:, done:] = start + np.arange(len(tokens) - done)
    return positions
