"""Learn to move an arm from videos of two cameras, states and actions, in a dataset like LeRobot's.

    python examples/robots.py --picture moments.png
    python examples/robots.py --data /data/robot --image-size 224 --epochs 100 --device cuda:0

--data names a folder with a table of moments (data.parquet: episode, time, state and action), a table of episodes
(episodes.parquet: for each camera a file, and the time in it where the episode begins) and the MP4 files. Without it,
the example draws an arm that moves to a target.

A sample is a moment: the frames of each camera at some times around it (`DELTAS`), the state, and the next actions. The
dataset passes paths and times. The server decodes each group of pictures about once, for all samples that need it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn
from torch.utils.data import Dataset
from tqdm import tqdm

import common
import dali_proxy
from dali_proxy import dynamic
from dali_proxy.distributed import DistributedBatchSampler

RATE = 10
CAMERAS = ("front", "wrist")
#: Times around a moment, in seconds, as LeRobot's `delta_timestamps`.
DELTAS = {"front": np.array([-0.2, 0.0]), "wrist": np.array([0.0]), "action": np.arange(4) / RATE}
WINDOW = 1000  # of the order, in samples

EPISODES, LENGTH, TOGETHER = 48, 20, 4  # episodes, their moments, and episodes in a file
SIZE, ARM, SPEED = (
    96,
    12,
    0.05,
)  # of the drawings: pixels of a frame and of the arm, and part of the frame for each step


class Moments(Dataset):
    """The moments of some episodes."""

    def __init__(self, folder: Path, transform: Callable[..., Any], *, held_out: bool) -> None:
        moments, episodes = (pq.read_table(folder / f"{name}.parquet") for name in ("data", "episodes"))
        part = np.asarray(episodes["held_out"]) == held_out
        self.files = {name: [str(folder / path) for path in episodes[f"{name}/path"].to_pylist()] for name in CAMERAS}
        self.starts = {name: np.asarray(episodes[f"{name}/from_time"]) for name in CAMERAS}
        episode = np.asarray(moments["episode"])
        chosen = part[episode]
        self.episode, self.time = episode[chosen], np.asarray(moments["time"])[chosen]
        self.state, self.action = (
            np.array(moments[name].to_pylist(), np.float32)[chosen] for name in ("state", "action")
        )
        self.ends = np.searchsorted(self.episode, self.episode, "right") - 1  # the last moment of each one's episode
        self.transform = transform

    def __len__(self) -> int:
        return len(self.time)

    @property
    def lengths(self) -> list[int]:
        """The number of moments of each file."""
        files = np.array(self.files["front"])[self.episode]
        begins = np.flatnonzero(np.append(True, files[1:] != files[:-1]))
        return np.diff(np.append(begins, len(files))).tolist()

    def __getitem__(self, index: int) -> dict[str, Any]:
        episode, last = self.episode[index], self.ends[index]
        inputs = {}
        for name in CAMERAS:
            times = np.clip(self.time[index] + DELTAS[name], 0, self.time[last])  # not those of the next episode
            inputs[name] = self.files[name][episode]
            inputs[f"{name}_times"] = self.starts[name][episode] + times
        steps = np.minimum(index + np.round(DELTAS["action"] * RATE).astype(int), last)
        frames = self.transform(**inputs, sample_name=f"episode {episode}, {self.time[index]:.2f} s")
        return {**frames, "state": self.state[index], "action": self.action[steps]}


def make_transform(device: str, size: int, training: bool) -> Callable[..., Any]:
    """Return a function that makes float frames, [times, 3, size, size], of both cameras."""

    def look(file: Any, times: Any, brightness: Any) -> Any:
        frames = dynamic.io.video(file, times=times, tolerance=0.5 / RATE, device=device)
        frames = dynamic.resize(frames, size=(size, size))
        frames = dynamic.brightness(frames, brightness=brightness)
        return dynamic.crop_mirror_normalize(frames, mean=common.MEAN, std=common.STD, output_layout="FCHW")

    def transform(front: Any, front_times: Any, wrist: Any, wrist_times: Any) -> dict[str, Any]:
        brightness = dynamic.random.uniform(range=(0.8, 1.2)) if training else 1.0  # the same for both cameras
        return {"front": look(front, front_times, brightness), "wrist": look(wrist, wrist_times, brightness)}

    return transform


class Policy(nn.Module):
    """Predicts the next actions from frames and state."""

    def __init__(self) -> None:
        super().__init__()
        channels = (3, 16, 32, 32, 32)
        layers: list[nn.Module] = []
        for before, after in pairwise(channels):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        self.encoder = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten())
        frames = sum(len(DELTAS[name]) for name in CAMERAS)
        self.head = nn.Sequential(
            nn.Linear(frames * 16 * channels[-1] + 2, 128), nn.ReLU(), nn.Linear(128, 2 * len(DELTAS["action"]))
        )

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        frames = torch.cat([batch[name] for name in CAMERAS], dim=1)
        features = self.encoder(frames.flatten(0, 1)).unflatten(0, frames.shape[:2]).flatten(1)
        return self.head(torch.cat([features, batch["state"]], dim=1)).unflatten(1, (-1, 2))


def draw(arm: np.ndarray, target: np.ndarray) -> dict[str, np.ndarray]:
    """Draw what the cameras see: the one in front sees everything, the other one what is near the arm."""
    canvas = np.full((2 * SIZE, 2 * SIZE, 3), 90, np.uint8)
    canvas[SIZE // 2 : 3 * SIZE // 2, SIZE // 2 : 3 * SIZE // 2] = 160
    for place, color in ((target, (40, 180, 60)), (arm, (200, 50, 40))):
        top, left = (np.round(place * (SIZE - ARM)).astype(int) + SIZE // 2).tolist()
        canvas[top : top + ARM, left : left + ARM] = color
    front = canvas[SIZE // 2 : 3 * SIZE // 2, SIZE // 2 : 3 * SIZE // 2]
    top, left = (np.round(arm * (SIZE - ARM)).astype(int) + (SIZE + ARM) // 2 - SIZE // 4).tolist()
    wrist = canvas[top : top + SIZE // 2, left : left + SIZE // 2].repeat(2, axis=0).repeat(2, axis=1)
    return {"front": front, "wrist": wrist}


def write_episodes(folder: Path, seed: int) -> None:
    """Write data.parquet, episodes.parquet and the videos, with several episodes in each, as LeRobot does since v3."""
    dice = np.random.default_rng(seed)
    moments: dict[str, list[Any]] = {"episode": [], "time": [], "state": [], "action": []}
    episodes: dict[str, list[Any]] = {f"{name}/{key}": [] for name in CAMERAS for key in ("path", "from_time")}
    for name in CAMERAS:
        (folder / "videos" / name).mkdir(parents=True)
    for file in tqdm(range(EPISODES // TOGETHER), "writing videos", unit="file", disable=None):
        shown: dict[str, list[np.ndarray]] = {name: [] for name in CAMERAS}
        for episode in range(file * TOGETHER, (file + 1) * TOGETHER):
            for name in CAMERAS:
                episodes[f"{name}/path"].append(f"videos/{name}/{file:03}.mp4")
                episodes[f"{name}/from_time"].append(len(shown[name]) / RATE)
            arm, target = dice.uniform(size=(2, 2))
            for step in range(LENGTH):
                way = target - arm
                action = way * min(1, SPEED / max(float(np.linalg.norm(way)), 1e-9))
                for key, value in (("episode", episode), ("time", step / RATE), ("state", arm), ("action", action)):
                    moments[key].append(value)
                for name, image in draw(arm, target).items():
                    shown[name].append(image)
                arm = arm + action
        for name, images in shown.items():
            write_video(folder / "videos" / name / f"{file:03}.mp4", images)
    pq.write_table(pa.table({key: list(values) for key, values in moments.items()}), folder / "data.parquet")
    held_out = [number % 6 == 5 for number in range(EPISODES)]
    pq.write_table(pa.table({**episodes, "held_out": held_out}), folder / "episodes.parquet")


def write_video(path: Path, images: list[np.ndarray]) -> None:
    """Write an MP4 with a key frame every two seconds."""
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libx264", rate=RATE, options={"crf": "20", "g": str(2 * RATE), "preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = SIZE, SIZE, "yuv420p"
        for image in images:
            file.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(image), "rgb24")))
        file.mux(stream.encode())


def train(options: argparse.Namespace, network: nn.Module, loader: dali_proxy.DataLoader) -> common.Meter:
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate)
    meter = common.Meter(options.epochs, len(loader))
    network.train()
    for _ in range(options.epochs):
        for batch in meter.follow(loader):
            batch = {key: value.to(options.device) for key, value in batch.items()}
            loss = nn.functional.mse_loss(network(batch), batch["action"] / SPEED)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.add(loss, len(batch["state"]))
    meter.close()
    return meter


@torch.no_grad()
def right_directions(options: argparse.Namespace, network: nn.Module, loader: dali_proxy.DataLoader) -> float:
    """Return the share of actions within 30 degrees of the right direction, of those that aren't zero."""
    network.eval()
    right, count = 0, 0
    for batch in loader:
        batch = {key: value.to(options.device) for key, value in batch.items()}
        moves = batch["action"].norm(dim=-1) > SPEED / 2
        cosine = nn.functional.cosine_similarity(network(batch), batch["action"], dim=-1)
        right += int((cosine[moves] > np.cos(np.pi / 6)).sum())
        count += int(moves.sum())
    return right / count


def main() -> None:
    options = common.parse(common.make_parser(__doc__, epochs=8, image_size=64))
    device = "cpu" if options.device.type == "cpu" else "gpu"
    with common.temporary_folder() as made:
        folder = options.data or made
        if options.data is None:
            write_episodes(folder, options.seed)
        with (
            dali_proxy.serve(make_transform(device, options.image_size, True), **common.placement(options)) as server,
            dali_proxy.serve(make_transform(device, options.image_size, False), **common.placement(options)) as plain,
        ):
            dataset = Moments(folder, server.proxy, held_out=False)
            order = dali_proxy.WindowedOrder(dataset.lengths, window=WINDOW, seed=options.seed)
            sampler = DistributedBatchSampler(dataset, options.batch_size, order=order)
            workers = {"num_workers": options.num_workers, "persistent_workers": options.num_workers > 0}
            loader = dali_proxy.DataLoader(server, dataset, batch_sampler=sampler, **workers)
            network = Policy().to(options.device)
            meter = train(options, network, loader)
            stats = server.stats()
            if options.picture:
                common.save_picture(options.picture, next(iter(loader))["front"].flatten(0, 1))
            held_out = Moments(folder, plain.proxy, held_out=True)
            score = right_directions(
                options, network, dali_proxy.DataLoader(plain, held_out, **common.loader_options(options))
            )
    decoded = f"{stats.video_decoded / stats.video_used:.2f} for each used one"
    meter.report(stats, accuracy=f"{score:.1%} of the actions within 30 degrees (guessing: 17%)", decoded=decoded)


if __name__ == "__main__":
    main()
