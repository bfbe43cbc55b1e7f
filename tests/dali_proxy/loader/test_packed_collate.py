"""`PackedCollate` and `PatchGrid`: packed batches of texts, images and videos, through a server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from dali_proxy import DALIServer, DataLoader, PackedBatchSampler, PackedCollate, PatchGrid
from dali_proxy._loader.packed_collate import vision_positions
from pipeline import fn, pipeline_def
from pipeline.errors import ArgumentTypeError, ArgumentValueError

GRID = PatchGrid(patch_size=4, merge_size=2, temporal_patch_size=2, min_pixels=64, max_pixels=64 * 20)
IMAGE, TEXT = 7, 1


@pipeline_def(batch_size=16, num_threads=2, device_id=None, seed=3)
def patches() -> Any:
    frames = fn.smart_resize(fn.external_source(name="frames", layout="FHWC"), **GRID.resizing)
    noise = fn.random.uniform(range=(0, 1))
    return fn.patchify(frames, **GRID.patching) + noise


class Samples(Dataset[Any]):
    """Texts with any number of images and videos."""

    def __init__(self, transform: Any, count: int = 24) -> None:
        self.transform = transform
        generator = np.random.default_rng(0)
        self.shapes = [
            [tuple(generator.integers((1, 8, 8), (4, 60, 60)).tolist()) for _ in range(number)]
            for number in [*generator.integers(0, 4, count - 2), 0, 0]
        ]

    def __len__(self) -> int:
        return len(self.shapes)

    def tokens(self, index: int) -> list[int]:
        parts = [[TEXT, *[IMAGE] * GRID.tokens(height, width, frames)] for frames, height, width in self.shapes[index]]
        return [*itertools.chain.from_iterable(parts), TEXT, TEXT]

    def __getitem__(self, index: int) -> dict[str, Any]:
        generator = np.random.default_rng(index)
        videos = [generator.integers(0, 255, (*shape, 3)).astype(np.uint8) for shape in self.shapes[index]]
        return {
            "input_ids": self.tokens(index),
            "index": index,
            "grids": [GRID.thw(height, width, frames) for frames, height, width in self.shapes[index]],
            "patches": [self.transform(video) for video in videos],
        }


@pytest.fixture
def server() -> Iterator[DALIServer]:
    with DALIServer(patches()) as running:
        yield running


def loader(server: DALIServer, rank: int = 0, ranks: int = 1, tokens: int = 120, **options: Any) -> DataLoader:
    dataset = Samples(server.proxy)
    lengths = [len(dataset.tokens(index)) for index in range(len(dataset))]
    sampler = PackedBatchSampler(lengths, tokens, window=4, ranks=4, rank=rank, world_size=ranks)
    collate = PackedCollate(vision={IMAGE: "grids"}, grid=GRID)
    return DataLoader(server, dataset, batch_sampler=sampler, collate_fn=collate, **options)


def test_batch_has_all_patches_and_no_padding(server: DALIServer) -> None:
    seen = []
    for batch in loader(server, num_workers=1):
        assert batch["patches"].shape == (int(batch["grids"].prod(dim=1).sum()), GRID.features)
        assert len(batch["input_ids"]) == batch["cu_seqlens"][-1] <= 120
        assert (batch["input_ids"] == IMAGE).sum() == len(batch["patches"]) / 4
        assert batch["cu_seqlens"].dtype == torch.int32
        assert batch["max_seqlen"] == batch["cu_seqlens"].diff().max()
        assert batch["position_ids"].shape == (3, len(batch["input_ids"]))
        first, *_ = batch["index"].tolist()
        assert batch["input_ids"][: batch["cu_seqlens"][1]].tolist() == Samples(None).tokens(first)
        seen += batch["index"].tolist()
    assert sorted(seen) == list(range(24))


def test_batches_are_the_same_for_any_number_of_ranks_and_workers(server: DALIServer) -> None:
    def epoch(ranks: int, state: Any = None, **options: Any) -> list[Any]:
        loaders = [loader(server, rank, ranks, **options) for rank in range(ranks)]
        for each in loaders:
            each.load_state_dict(state or {})
        steps = zip(*loaders, strict=True)
        return [(batch["index"].tolist(), batch["patches"]) for step in steps for batch in step]

    expected = epoch(1, num_workers=0)
    stopped = loader(server, 0, 2, num_workers=1)
    next(iter(stopped))
    for made, known in (
        (epoch(2, num_workers=2), expected),
        (epoch(4, num_workers=0), expected),
        (epoch(1, stopped.state_dict(), num_workers=2), expected[2:]),
    ):
        assert [indices for indices, _ in made] == [indices for indices, _ in known]
        assert all(torch.equal(ours, theirs) for (_, ours), (_, theirs) in zip(made, known, strict=True))


def test_batch_without_images_has_no_patches(server: DALIServer) -> None:
    dataset = Samples(server.proxy)
    batch = PackedCollate(vision={IMAGE: "grids"}, grid=GRID)([dataset[22], dataset[23]])
    assert batch["patches"].shape == (0, GRID.features)
    assert batch["grids"].shape == (0, 3)
    assert batch["position_ids"].tolist() == [[0, 1, 0, 1]] * 3


def test_more_images_than_the_pipelines_batch_size(server: DALIServer) -> None:
    frames = np.zeros((1, 8, 8, 3), np.uint8)
    images = [server.proxy(frames) for _ in range(40)]
    sample = {"input_ids": [IMAGE] * 40, "grids": [(1, 2, 2)] * 40, "patches": images}
    packed = server.produce_data(PackedCollate(vision={IMAGE: "grids"}, grid=GRID)([sample]))
    assert packed["patches"].shape == (160, GRID.features)


def test_bad_image_is_left_out(server: DALIServer) -> None:
    class Bad(Samples):
        def __getitem__(self, index: int) -> dict[str, Any]:
            sample = super().__getitem__(index)
            if index == 3:
                sample["patches"][0] = self.transform(np.zeros((1, 1, 900, 3), np.uint8))
            return sample

    dataset = Bad(server.proxy)
    assert dataset.shapes[3]
    lengths = [len(dataset.tokens(index)) for index in range(len(dataset))]
    batches = DataLoader(
        server,
        dataset,
        batch_sampler=PackedBatchSampler(lengths, 120, ranks=1),
        collate_fn=PackedCollate(vision={IMAGE: "grids"}, grid=GRID),
        on_error="skip",
    )
    seen = []
    for batch in batches:
        assert len(batch["patches"]) == batch["grids"].prod(dim=1).sum()
        seen += batch["index"].tolist()
    assert sorted(seen) == [index for index in range(24) if index != 3]


@pytest.mark.gpu
def test_patches_stay_on_the_gpu(server: DALIServer) -> None:
    @pipeline_def(batch_size=16, num_threads=2, device_id=0)
    def on_gpu() -> Any:
        frames = fn.external_source(name="frames", layout="FHWC").gpu()
        return fn.patchify(fn.smart_resize(frames, **GRID.resizing), **GRID.patching)

    with DALIServer(on_gpu()) as other:
        for made, expected in zip(loader(other, num_workers=1), loader(server, num_workers=1), strict=True):
            assert made["patches"].is_cuda
            assert made["index"].tolist() == expected["index"].tolist()
            noise = expected["patches"] - made["patches"].cpu()  # the other pipeline adds a number from 0 to 1
            assert -1.1 < noise.min() <= noise.max() < 2.1


def test_positions_count_on_behind_an_image() -> None:
    tokens = np.array([1, 1, 7, 7, 7, 7, 7, 7, 1, 8, 8, 1])
    grids = {7: np.array([[1, 4, 6]]), 8: np.array([[2, 2, 2]])}
    positions = vision_positions(tokens, grids, 2)
    assert positions[0].tolist() == [0, 1, 2, 2, 2, 2, 2, 2, 5, 6, 7, 8]
    assert positions[1].tolist() == [0, 1, 2, 2, 2, 3, 3, 3, 5, 6, 6, 8]
    assert positions[2].tolist() == [0, 1, 2, 3, 4, 2, 3, 4, 5, 6, 6, 8]


@pytest.mark.slow  # the import of transformers
def test_positions_equal_those_of_qwen_vl() -> None:
    transformers = pytest.importorskip("transformers")
    try:
        config = transformers.Qwen2VLConfig(text_config={"num_hidden_layers": 1}, vision_config={"depth": 1})
        with torch.device("meta"):
            model = transformers.Qwen2VLModel(config)
    except (AttributeError, ImportError):
        pytest.skip("needs a version of transformers with this model")
    image, video = model.config.image_token_id, model.config.video_token_id
    tokens = [1, 2, 3, *[image] * 6, 5, 3, *[video] * 8, 6, 7, 3, *[image] * 4, 9]
    images, videos = np.array([[1, 4, 6], [1, 4, 4]]), np.array([[2, 4, 4]])
    kinds = torch.tensor([[(token == image) + 2 * (token == video) for token in tokens]])
    ids, given = torch.tensor([tokens]), (torch.from_numpy(images), torch.from_numpy(videos))
    try:
        expected, _ = model.get_rope_index(
            ids, image_grid_thw=given[0], video_grid_thw=given[1], mm_token_type_ids=kinds
        )
    except TypeError:
        expected, _ = model.get_rope_index(ids, image_grid_thw=given[0], video_grid_thw=given[1])
    made = vision_positions(np.array(tokens), {image: images, video: videos}, 2)
    assert made.tolist() == expected[:, 0].tolist()


def test_tokens_that_do_not_fit_the_images_are_errors() -> None:
    for tokens, message in (([7], "has 1 tokens 7, but its images have 2"), ([7, 1, 7], "aren't adjacent")):
        with pytest.raises(ArgumentValueError, match=message):
            vision_positions(np.array(tokens), {7: np.array([[1, 2, 4]])}, 2)
    with pytest.raises(ArgumentTypeError, match="mappings with the key 'input_ids'"):
        PackedCollate()([{"text": [1]}])
    with pytest.raises(ArgumentValueError, match="needs grid="):
        PackedCollate(vision={7: "grids"})


def test_grid_describes_what_the_operators_make(server: DALIServer) -> None:
    shapes = [(1, 8, 59, 3), (5, 30, 40, 3), (2, 100, 9, 3)]
    for shape in shapes:
        made = server.produce_data(server.proxy(np.zeros(shape, np.uint8)))
        grid = GRID.thw(shape[1], shape[2], shape[0])
        assert made.shape == (np.prod(grid), GRID.features)
        assert GRID.tokens(shape[1], shape[2], shape[0]) == np.prod(grid) // 4
    several = GRID.grids([shape[1] for shape in shapes], [shape[2] for shape in shapes], [1, 5, 2])
    assert several.tolist() == [list(GRID.thw(shape[1], shape[2], shape[0])) for shape in shapes]
    with pytest.raises(ArgumentValueError, match="at most 200"):
        GRID.thw(1, 300)
