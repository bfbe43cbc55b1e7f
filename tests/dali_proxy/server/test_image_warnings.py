"""Warnings of a server's decoder name the sample as its dataset does, and `stats` counts damaged images."""

from __future__ import annotations

from typing import Any

import pytest

from dali_proxy import DALIServer, DataLoader
from pipeline import dynamic, types
from tests.pipeline.operators.decoding.test_image_warnings import jpeg


def gray(encoded: Any) -> Any:
    return dynamic.decoders.image(encoded, output_type=types.GRAY)


class Files:
    def __init__(self, server: DALIServer) -> None:
        self.proxy = server.proxy

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return self.proxy(jpeg(index, damaged=index == 6), sample_name=f"photo {index}.jpg")


def test_damaged_jpeg_is_named_by_its_dataset_index() -> None:
    with DALIServer(gray, batch_size=4, num_threads=2, mode="thread") as server:  # whose warnings are this process's
        before = server.stats().damaged
        with pytest.warns(UserWarning, match=r"dataset index 6, sample name 'photo 6\.jpg': a JPEG is damaged"):
            list(DataLoader(server, Files(server), batch_size=4))
        assert server.stats().damaged == before + 1
        assert "JPEGs are damaged in their middle" in str(server.stats())
