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
    path = folder / "talk.flac"
    soundfile.write(path, np.arange(16_000) / 20_000, 8000)  # two seconds of a slope
    times = [(0.5, 0.25), (0.35, 0.57), (None, 0.3), (1.2, None), (1.9, 0.5), (-0.5, 0.1), (2.0, 1.0)]
    segments = [{"audio_filepath": str(path), "offset": offset, "duration": length} for offset, length in times]
    lines = [json.dumps({name: value for name, value in each.items() if value is not None}) for each in segments]
    (folder / "segments.json").write_text("\n".join(lines), encoding="utf-8")
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
        {"manifests": ["segments.json"]},
        {"manifests": ["segments.json"], "sample_rate": 16000.0},
        {"manifests": ["segments.json"], "min_duration": 0.2, "max_duration": 0.55},
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


def test_segment_behind_the_end_is_an_error_that_names_the_file(root: Path, tmp_path: Path) -> None:
    entry = {"audio_filepath": str(root / "talk.flac"), "offset": 2.5, "duration": 1.0}
    (tmp_path / "late.json").write_text(json.dumps(entry))
    with pytest.raises(PipelineError, match=r"talk.flac': the segment begins at 2.5 s, but the audio ends at 2 s"):
        outputs("ours", tmp_path, manifests=("late.json",))


def test_segment_of_compressed_audio_is_exact(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 48_000)
    for container, encoding in (("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", None), ("WAV", "MS_ADPCM")):
        path = tmp_path / f"{container}-{encoding}"
        soundfile.write(path, noise, 16_000, format=container, subtype=encoding)
        whole = soundfile.read(path, dtype="float32")[0]
        (tmp_path / "list").write_text(json.dumps({"audio_filepath": str(path), "offset": 1.25, "duration": 0.5}))
        _, arrays = outputs("ours", tmp_path, manifests=("list",), read_sample_rate=False, read_text=False)
        np.testing.assert_allclose(arrays[0][0], whole[20_000:28_000], atol=1e-6, err_msg=path.name)
