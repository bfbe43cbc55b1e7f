"""Compare ways to read videos on a GPU: ``python -m benchmarks.gpu.video --help``.

Read sequences of 16 frames of 1080p as uint8 RGB into GPU memory, in order and in random order, with one thread
and with several: ours, torchcodec, PyNvVideoCodec, NVIDIA DALI, and FFmpeg without any conversion of its frames.
Compare frames with the CPU's before timing anything. Each rival has a separate process; one that is missing, fails
or hangs is named, and the others continue.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import torch

from benchmarks.child import Caller, RivalError
from benchmarks.ffmpeg import ffmpeg_found
from benchmarks.gpu.budget import Budget
from benchmarks.gpu.session import without_paths
from benchmarks.gpu.video_clips import CODECS, GROUP, LENGTH, Videos, make_videos
from benchmarks.gpu.video_readers import RIVALS, answer, missing
from benchmarks.machine import describe_machine, describe_versions
from benchmarks.report import save
from benchmarks.session import RESULTS, command, device_id

SUFFIX = "-gpu-video"
MEAN_BOUND = 2.0
"""Mean difference from the CPU's frames, of 255, above which our frames are wrong."""

GRACE = 25.0
"""Seconds that a rival may take besides its measurement."""

FEW = {"dali": (8, 1), "ffmpeg-alone": (8, 1), "ffmpeg-unsafe": (8, 1), "ours-cpu": (16,)}
"""Numbers of threads for rivals that don't need all of them."""

IN_ORDER_ONLY = ("ffmpeg-alone", "ffmpeg-unsafe")
BESIDE = {
    "ours-by-hand": ("default", "its own"),
    "ours-reader": ("default", "its own"),
    "torchcodec": ("default",),
    "pynvvideocodec": ("default",),
}
"""The rivals to measure during training, and the training's streams."""

Document = dict[str, Any]


class Comparison:
    """One comparison: the rivals and their results.

    Args:
        options: Options of the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.budget = Budget(options.limit)
        self.callers: dict[str, Caller] = {}
        self._unchecked: set[tuple[str, str]] = set()  # rivals and codecs whose frames couldn't be checked
        self.document: Document = {
            "date": date.today().isoformat(),
            "command": command(options, "python -m benchmarks.gpu.video"),
            "sequence": LENGTH,
            "key_frames": GROUP,
            "videos": {},
            "checks": [],
            "rates": [],
            "failures": {},
        }

    @property
    def right(self) -> bool:
        """Return whether all checked pixels of our readers are right."""
        ours = [check for check in self.document["checks"] if check["rival"].startswith("ours")]
        return all(check["mean"] <= MEAN_BOUND for check in ours)

    def say(self, what: str) -> None:
        """Print a progress message."""
        print(f"[{self.budget.elapsed:5.0f} s] {what}", flush=True)

    def run(self) -> None:
        """Measure until the time is over; save the results after each codec."""
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            self._start(stack, folder)
            videos = self._encode(stack, folder)
            for each in videos:
                self._check(each)
            for each in videos:
                self._rates(each)
                self.save()
                if each is videos[0]:
                    self._training(each)
            for caller in self.callers.values():
                caller.let_go()
        self.save()

    def save(self) -> Path:
        """Write the results so far."""
        self.document |= {
            "machine": describe_machine(),
            "versions": describe_versions(),
            "left_out": self.budget.left_out,
            "seconds": round(self.budget.elapsed, 1),
        }
        return save(self.document, self.options.output, device_id(self.options), SUFFIX)

    def table(self) -> str:
        """Return frames per second: a row for each rival, a column for each number of threads."""
        lines = []
        threads = sorted(self.options.threads)
        for codec in self.options.codecs:
            for shuffle in (False, True):
                rates = {
                    (rate["rival"], rate["threads"]): rate
                    for rate in self.document["rates"]
                    if (rate["codec"], rate["shuffle"], rate["beside"]) == (codec, shuffle, "")
                }
                columns = "".join(f" {number} |" for number in threads)
                order = "at random" if shuffle else "in order"
                lines += ["", f"| {codec} {order}, frames/s by threads |{columns} cores |"]
                lines.append("| --- |" + " --- |" * (len(threads) + 1))
                for rival in self.options.rivals:
                    found = [rates.get((rival, number)) for number in threads]
                    if any(found):
                        cells = "".join(f" {one['rate']:,.0f} |" if one else " |" for one in found)
                        most = max(one["cores"] for one in found if one)
                        lines.append(f"| {rival} |{cells} {most:.1f} |")
        for rate in self.document["rates"]:
            if rate["beside"]:
                lines.append(
                    f"during training on {rate['beside']} stream: {rate['rival']}, {rate['threads']} threads: "
                    f"{rate['rate']:,.0f} frames/s, {rate['steps']:.1f} of {rate['steps_alone']:.1f} steps/s"
                )
        return "\n".join(lines)

    def _start(self, stack: ExitStack, folder: str) -> None:
        """Start all processes at once: they import while videos are encoded."""
        for rival in self.options.rivals:
            reason = missing(rival)
            if reason is not None:
                self._fail(rival, reason)
                continue
            with ffmpeg_found(folder) if rival == "torchcodec" else nullcontext():
                caller = Caller(rival, answer, rival, device_id(self.options), grace=GRACE)
            self.callers[rival] = caller
            stack.callback(caller.close)

    def _encode(self, stack: ExitStack, folder: str) -> list[Videos]:
        """Encode the videos of all codecs concurrently."""
        self.say(f"encoding {self.options.frames} frames of {'x'.join(map(str, self.options.size))}")
        encoders = {codec: Caller(f"encoding {codec}", make_videos, folder, codec) for codec in self.options.codecs}
        made = []
        for encoder in encoders.values():
            stack.callback(encoder.close)
            encoder.begin(max(self.options.threads), tuple(self.options.size), self.options.frames)
        for codec, encoder in encoders.items():
            try:
                videos = encoder.end(60)
            except RivalError as error:
                self._fail(f"encoding {codec}", str(error))
                continue
            size = Path(videos.paths[0]).stat().st_size
            self.say(f"  {codec}: {size / videos.frames / 1000:.0f} KB a frame")
            self.document["videos"][codec] = {"frames": videos.frames, "bytes": size, "size": self.options.size}
            made.append(videos)
        return made

    def _check(self, videos: Videos) -> None:
        """Compare the frames of all rivals that return pixels with the CPU's, concurrently."""
        self.say(f"pixels of {videos.codec}, compared with the CPU's")
        asked = list(self.callers)
        for rival in asked:
            with self._guarded(rival, videos.codec):
                self.callers[rival].begin("check", videos)
        for rival in asked:
            if rival not in self.callers:
                continue
            self._unchecked.add((rival, videos.codec))
            with self._guarded(rival, videos.codec):
                found = self.callers[rival].end(10)
                self._unchecked.remove((rival, videos.codec))
                if found is not None:
                    self.say(f"  {rival}: mean {found['mean']:.2f}, largest {found['max']:.0f} of 255")
                    self.document["checks"].append({"codec": videos.codec, "rival": rival, **found})

    def _rates(self, videos: Videos) -> None:
        for threads in self.options.threads:
            for shuffle in (False, True):
                for rival in list(self.callers):
                    if threads in FEW.get(rival, (threads,)) and not (shuffle and rival in IN_ORDER_ONLY):
                        self._rate(rival, videos, threads, shuffle)

    def _training(self, videos: Videos) -> None:
        """Measure our readers during training in the same process."""
        if device_id(self.options) is None:
            return
        for rival, streams in BESIDE.items():
            for stream in streams:
                if rival in self.callers:
                    self._rate(rival, videos, min(8, max(self.options.threads)), True, stream)

    def _rate(self, rival: str, videos: Videos, threads: int, shuffle: bool, beside: str = "") -> None:
        words = f"{videos.codec} {'at random' if shuffle else 'in order'}, {threads} threads"
        if (rival, videos.codec) in self._unchecked:
            return
        what = f"{rival}, {words}" + (f", during training on {beside} stream" if beside else "")
        if not self.budget.allows(what):
            return
        with self._guarded(rival, what):
            self.callers[rival].begin("rate", videos, threads, shuffle, self.options.seconds, beside)
            rate = self.callers[rival].end(self.options.seconds)
            self.say(f"  {what}: {rate['rate']:,.0f} frames/s (ready after {rate['opening']:.2f} s)")
            rounded = {key: round(value, 3) for key, value in rate.items()}
            kind = {"codec": videos.codec, "rival": rival, "threads": threads, "shuffle": shuffle, "beside": beside}
            self.document["rates"].append(kind | rounded)

    @contextmanager
    def _guarded(self, rival: str, what: str) -> Iterator[None]:
        """Isolate the others from a failure of one rival. Drop a rival that died or hangs."""
        try:
            yield
        except RivalError as error:
            self._fail(f"{rival}: {what}", str(error))
            if not error.reported:
                self.callers.pop(rival).let_go()

    def _fail(self, what: str, text: str) -> None:
        self.document["failures"][what] = without_paths(text)
        self.say(f"  LEFT OUT: {what}: {text.strip().splitlines()[-1]}")


def main() -> int:
    """Measure, print a table and save JSON.

    Returns:
        1 if our pixels are wrong, 2 without a GPU, else 0: a missing rival isn't an error.
    """
    options = parser().parse_args()
    if options.device != "cpu" and not torch.cuda.is_available():
        print("torch sees no GPU here: `python -m benchmarks.video` compares on the CPU.", file=sys.stderr)
        return 2
    comparison = Comparison(options)
    comparison.run()
    print(comparison.table())
    if comparison.budget.left_out:
        print(f"Skipped, because {options.limit:.0f} s were over: " + "; ".join(comparison.budget.left_out))
    print(f"Saved {comparison.save().name} after {comparison.budget.elapsed:.0f} s.")
    if not comparison.right:
        print("PIXELS ARE WRONG, so the timings are meaningless.")
    return 0 if comparison.right else 1


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.gpu.video", description=__doc__.partition("\n")[0])
    add = made.add_argument
    add("--device", default="cuda:0", help="cuda:0, or cpu to try the program without a GPU (default: %(default)s)")
    add("--rivals", nargs="+", choices=list(RIVALS), default=list(RIVALS), help="rivals to measure (default: all)")
    add("--codecs", nargs="+", choices=list(CODECS), default=list(CODECS), help="(default: all)")
    add("--threads", nargs="+", type=int, default=[8, 1, 16, 4], help="in this order (default: %(default)s)")
    add("--seconds", type=float, default=0.6, help="length of one measurement (default: %(default)s)")
    add("--limit", type=float, default=80.0, help="seconds after which no further part starts (default: %(default)s)")
    add("--size", nargs=2, type=int, default=[1920, 1080], help="width and height (default: %(default)s)")
    add("--frames", type=int, default=240, help="of each video (default: %(default)s)")
    add("--output", type=Path, default=RESULTS, help="folder of the JSON (default: benchmarks/results)")
    return made


if __name__ == "__main__":
    sys.exit(main())
