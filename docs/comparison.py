"""Writes docs/comparison.md and its plots: the loaders side by side, from the last results.

    python -m docs.comparison

`python -m benchmarks.comparison` measures. There is a section for each kind of data, and a plot.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER / "comparison.md"
FIGURES = FOLDER / "figures"
RESULTS = FOLDER.parent / "benchmarks" / "results"
OURS = "dali-proxy"

GOAL = 1.3
"""The speed of dali-proxy, divided by that of the fastest other loader, below which a section gives the reason."""

REASONS = {
    "jpeg-small": "libjpeg-turbo takes two thirds of our processor time, and all these loaders decode with it.",
    "jpeg-large": "libjpeg-turbo takes three quarters of our processor time, and all these loaders decode with it.",
    "views": "Decoding and blurring take half of our processor time, with the libraries that other loaders use, too.",
    "detection": "libjpeg-turbo takes two thirds of our processor time, and all these loaders decode with it.",
    "segmentation": "libjpeg-turbo takes two fifths of our processor time, as in the other loaders, and PNG a sixth.",
    "audio": "The decoder of FLAC and the Fourier transform take almost half of our processor time.",
    "clips": "FFmpeg's decoder takes two thirds of our processor time, and all these loaders decode with it.",
    "frames": "FFmpeg's decoder takes four fifths of our processor time, and all these loaders decode with it.",
    "function": "The function takes a third of our processor time, and the same in every loader.",
    "arrays": "There is nothing to compute. A worker needs about 7 us of Python for a sample: it calls the proxy,\n"
    "copies the row to shared memory and collates it. A batch takes the training and the server another millisecond.\n"
    "Threads of the training only copy the rows.",
    "shards": "libjpeg-turbo takes two thirds of our processor time, and all these loaders decode with it.",
    "short-epochs": "libjpeg-turbo takes two thirds of our processor time, and all these loaders decode with it.",
}
"""Why the gain in a job is limited: the largest parts of a profile of our pipeline on one core."""

HEAD = """# Loaders side by side

Each section has one kind of data. All loaders make the same batches: random windows and mirroring are functions of the
index of a sample. The pixels of each loader are compared with a slow reference (Pillow, NumPy) before anything is
timed; *differs* is the mean difference. The loaders of a section take turns, {rounds} rounds, each loader in its own
process, with {cores}. The tables show the median, and the smallest and largest rate.
*CPU* is the processor time of all processes of a loader for a sample. *Memory* is that of all its processes: libraries
and shared memory count once. *First batch* is the time from the creation of the loader, with the imports that only this
loader needs. *Ours* is the speed of dali-proxy divided by that of the loader, in the same rounds: below 1, the loader
is faster.

{source}

```console
make bench-rivals       # those without results, then the oldest ones, as many as fit into a quarter of an hour
make bench-rivals ARGS="--jobs jpeg-small audio --rivals dali-proxy torch spdl"
python -m docs.comparison                                   # this page, from the results
```

[When to use another loader](concepts/comparison.md#when-to-use-another-loader) says what follows from the figures.

## Summary

| data | dali-proxy, samples/s | fastest other loader | samples/s | ours | CPU, ours / its | memory, ours / least |
| --- | ---: | --- | ---: | --- | --- | --- |
"""

COSTS = """
Two costs are the same for all kinds of data:

- The *first batch* waits for the server, a fresh process that imports NumPy and the operators: 0.3 to 0.4 s of
  processor time. Most other loaders fork the process of the training, which has imported everything. If the module of
  [your own function](howto/own-operators.md#all-cores) imports torch, the server does, too, and takes three times as
  long.
- *Memory*: the server itself has 30 MiB besides the libraries. The rest are batches on their way: results wait as
  normalised float32, with four times the bytes of the uint8 images that the other loaders normalise in the training.
  Decoded images that an output, or an operator on whole batches, reads wait for it, too, up to 130 MiB with images of
  3 megapixels. A smaller `batch_size` and a `prefetch_factor` of 1 help.
"""

LOADERS = """
## The loaders

| name | how it is used | version |
| --- | --- | --- |
"""

SECTION = """
## {title}

{what}![Samples per second of each loader](figures/comparison-{name}.svg)

| loader | samples/s | range | ours | CPU, ms | memory, MiB | first batch, s | differs{unit} |
| --- | ---: | --- | --- | ---: | ---: | ---: | ---: |
"""


def results() -> dict[str, Any]:
    """Return the last results."""
    paths = sorted(RESULTS.glob("*-comparison.json"))
    document: dict[str, Any] = json.loads(paths[-1].read_text())
    return document


def page(document: dict[str, Any]) -> str:
    """Return the page."""
    machine = document["machine"]
    jobs = document["jobs"]
    rounds = max(len(one["rounds"]) for job in jobs.values() for one in job["rivals"].values())
    noise = max(job["other_cores"] for job in jobs.values())
    busy = f" Other programs used up to {noise:.1f} cores meanwhile." if noise > 0.15 else ""
    dates = sorted({job.get("date", document["date"]) for job in jobs.values()})
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    source = f"Measured on {machine['processor']}, {machine['cores']} cores, {days}.{busy}"
    text = HEAD.format(
        rounds=rounds,
        cores=document["cores"],
        source=source,
    )
    text += "".join(_summary(job) for job in jobs.values() if OURS in job["rivals"] and len(job["rivals"]) > 1)
    text += (
        COSTS
        + LOADERS
        + "".join(f"| {name} | {title} | {version} |\n" for name, (title, version) in _loaders(jobs).items())
    )
    return text + "".join(_section(name, job) for name, job in jobs.items())


def _loaders(jobs: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {
        name: (one["title"], one["version"]) for job in jobs.values() for name, one in job["rivals"].items()
    }  # fmt: skip


def _best(job: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return our fastest result, those of the other loaders, and the name of the fastest of these."""
    others = {name: one for name, one in job["rivals"].items() if not name.startswith(OURS)}
    own = [one for name, one in job["rivals"].items() if name.startswith(OURS)]
    ours = max(own, key=lambda one: float(one["rate"]))
    return ours, others, max(others, key=lambda name: float(others[name]["rate"]))


def _summary(job: dict[str, Any]) -> str:
    ours, others, best = _best(job)
    ratio = ours["rate"] / others[best]["rate"]
    thrift = ours["cpu_milliseconds"] / others[best]["cpu_milliseconds"]
    least = ours["memory_MiB"] / min(one["memory_MiB"] for one in others.values())
    cells = [job["title"], f"{ours['rate']:,.0f}", best, f"{others[best]['rate']:,.0f}", f"{ratio:.2f}"]
    return f"| {' | '.join([*cells, f'{thrift:.2f}', f'{least:.2f}'])} |\n"


def _section(name: str, job: dict[str, Any]) -> str:
    unit = f", {job['unit']}" if job["unit"] else ""
    what = f"Batches of {job['batch_size']}.\n\n"
    text = SECTION.format(title=_capital(job["title"]), what=what, name=name, unit=unit)
    for rival, one in _sorted(job):
        rates = [measured["samples"] / measured["seconds"] for measured in one["rounds"]]
        ratio = ""
        if "reference_ratio" in one:
            low, high = one["reference_ratio_range"]
            ratio = f"{one['reference_ratio']:.2f} ({low:.2f} to {high:.2f})"
        cells = [rival, f"{one['rate']:,.0f}", f"{min(rates):,.0f} to {max(rates):,.0f}", ratio]
        cells += [f"{one['cpu_milliseconds']:.3g}", f"{one['memory_MiB']:,.0f}", f"{one['first_batch_seconds']:.1f}"]
        text += f"| {' | '.join([*cells, format(one['differences'][0]['mean'], '.2g')])} |\n"
    if OURS in job["rivals"] and len(job["rivals"]) > 1:
        ours, others, best = _best(job)
        if ours["rate"] / others[best]["rate"] < GOAL:
            text += f"\n{REASONS[name]}\n"
    if job["failures"]:
        text += "\nLeft out: " + "; ".join(f"{rival} ({reason})" for rival, reason in job["failures"].items()) + ".\n"
    return text


def _sorted(job: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return sorted(job["rivals"].items(), key=lambda item: -item[1]["rate"])


def _capital(title: str) -> str:
    return title[0].upper() + title[1:]


def plot(name: str, job: dict[str, Any]) -> None:
    """Draw the rates of a job as bars, and their range."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "comparison"})
    rows = _sorted(job)
    figure = Figure(figsize=(7.5, 0.7 + 0.28 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, (rival, one) in enumerate(rows):
        rates = [measured["samples"] / measured["seconds"] for measured in one["rounds"]]
        axes.barh(place, one["rate"], height=0.7, color="#1f77b4" if rival.startswith(OURS) else "#b0b0b0")
        axes.plot([min(rates), max(rates)], [place, place], color="black", linewidth=1)
        axes.text(1.01, place, f"{one['rate']:,.0f}", transform=axes.get_yaxis_transform(), va="center", fontsize=9)
    axes.set_yticks(range(len(rows)), [rival for rival, _ in rows])
    axes.invert_yaxis()
    axes.set_xlabel("samples per second: median and range of the rounds", fontsize=9)
    axes.grid(axis="x", alpha=0.3)
    figure.savefig(FIGURES / f"comparison-{name}.svg", metadata={"Date": None})


def main() -> None:
    """Write the page and the plots."""
    document = results()
    for name, job in document["jobs"].items():
        plot(name, job)
    PAGE.write_text(page(document))


if __name__ == "__main__":
    main()
