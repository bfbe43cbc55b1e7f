"""readers.nemo_asr compared with NVIDIA DALI, and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeline
from pipeline.errors import PipelineError

soundfile = pytest.importorskip("soundfile")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nemo")
    times = np.arange(900)[:, None] / 8000
    entries = []
    for number in range(5):
        path = folder / f"{number}.wav"
        tones = np.sin(times[: 500 + 50 * number] * [300 + 100 * number, 50])
        soundfile.write(path, tones, 8000, subtype="PCM_16")
        entries.append({"audio_filepath": str(path), "duration": len(tones) / 8000, "text": f"wörd {number}"})
    del entries[2]["text"], entries[4]["duration"]
    lines = [json.dumps(entry, ensure_ascii=number % 2 == 0) for number, entry in enumerate(entries)]
    (folder / "a.json").write_text("\n".join(lines[:3]), encoding="utf-8")
    (folder / "b.json").write_text("\n".join(lines[3:]) + "\n", encoding="utf-8")
    return folder


def outputs(side: str, root: Path, dtype: str | None = None, **arguments: Any) -> Any:
    """Return the reader's description, and each output's samples."""
    dali = pipeline if side == "ours" else pytest.importorskip("nvidia.dali")
    manifests = [str(root / name) for name in arguments.pop("manifests", ("a.json", "b.json"))]
    if dtype:
        arguments["dtype"] = getattr(dali.types, dtype)
    pipe = dali.Pipeline(batch_size=2, num_threads=2, device_id=None, seed=1)
    with pipe:
        made = dali.fn.readers.nemo_asr(manifest_filepaths=manifests, name="R", **arguments)
        pipe.set_outputs(*(made if isinstance(made, list | tuple) else (made,)))
    pipe.build()
    try:
        ran = [pipe.run() for _ in range(3)]
        arrays = [[np.array(output.at(index)) for index in range(2)] for batch in ran for output in batch]
        return pipe.reader_meta("R"), arrays
    finally:
        if side == "ours":
            pipe.close()


@pytest.mark.parity
@pytest.mark.parametrize(
    "arguments",
    [
        {"read_idxs": True},
        {"read_sample_rate": False, "read_text": False},
        {"min_duration": 0.065, "read_idxs": True},
        {"max_duration": 0.07, "read_idxs": True},
        {"dtype": "INT16", "downmix": False},
        {"dtype": "INT32", "num_shards": 2, "shard_id": 1, "pad_last_batch": True},
        {"sample_rate": 16000.0, "quality": 80.0},
    ],
)
def test_entries_are_those_of_dali(root: Path, arguments: dict[str, Any]) -> None:
    (meta, ours), (their_meta, theirs) = (outputs(side, root, **arguments) for side in ("ours", "dali"))
    assert meta == their_meta
    for our_samples, their_samples in zip(ours, theirs, strict=True):
        for our, their in zip(our_samples, their_samples, strict=True):
            assert our.dtype == their.dtype
            assert our.shape == their.shape
            allowed = 3e-3 if "sample_rate" in arguments else 0  # as audio_resample
            assert np.abs(our.astype(np.float64) - their).max(initial=0) <= allowed


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"manifests": ()}, "'manifest_filepaths' is an empty list"),
        ({"manifests": ["none.json"]}, "can't read the manifest '.*none.json': No such file"),
        ({"manifests": ["empty.json"]}, "no audio files in '.*empty.json'"),
        ({"manifests": ["latin.json"]}, "latin.json' isn't UTF-8"),
        ({"manifests": ["missing.json"]}, "can't read the file '/none.wav'"),
        ({"manifests": ["text.json"]}, "text.json': not a valid audio file"),
        ({"dtype": "UINT8"}, "'dtype' must be one of INT16, INT32, FLOAT"),
    ],
)
def test_bad_manifest_or_file_is_an_error(root: Path, arguments: dict[str, Any], match: str) -> None:
    (root / "empty.json").write_text("\n")
    (root / "latin.json").write_bytes(b"\xff")
    (root / "missing.json").write_text('{"audio_filepath": "/none.wav"}\n')
    (root / "text.json").write_text(json.dumps({"audio_filepath": str(root / "text.json")}))
    with pytest.raises(PipelineError, match=match):
        outputs("ours", root, **arguments)


def test_invalid_lines_of_a_manifest_are_skipped_with_a_warning(root: Path) -> None:
    (root / "mixed.json").write_text('{"text": "x"}\n[1]\nnoise\n' + (root / "a.json").read_text(encoding="utf-8"))
    with pytest.warns(UserWarning, match="skipped line [123] of the manifest '.*mixed.json'") as caught:
        meta, _ = outputs("ours", root, manifests=["mixed.json"])
    assert len(caught) == 3
    assert meta["epoch_size"] == 3
