"""The images of the reference."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from dali_proxy.pipeline._catalog import all_schemas
from docs import images


def test_images_belong_to_operators_that_change_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DALI_EXTRA_PATH", raising=False)  # it has other photographs
    current = images.images()
    assert {path.stem for path in images.FOLDER.iterdir()} == set(current), "run `python -m docs.all`"
    assert set(current) <= {schema.name for schema in all_schemas()}
    for name, tiles in current.items():
        before, after = tiles[0], tiles[-1]
        assert not np.array_equal(before, after), name
        with Image.open(images.FOLDER / f"{name}.jpg") as saved:
            assert saved.size == images.beside(tiles).size, "run `python -m docs.all`"
