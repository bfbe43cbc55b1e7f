"""The command ``dali-proxy``."""

from __future__ import annotations

import argparse
import importlib.util
import runpy
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import dali_proxy

_RUN = """\
Run a script that was written for NVIDIA DALI, unchanged: its `import nvidia.dali` gets dali-proxy's modules, even in
processes that it starts.

With --device cpu, a script for a GPU runs on a machine without one. Operators with device="gpu" or "mixed" run on the
CPU, .gpu() copies nothing, device_id is ignored, and outputs are CPU tensors. Each pipeline warns once and lists what
changed. The script's own calls of torch, such as model.cuda(), stay as they are."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Args:
        arguments: Command-line arguments, by default those of this process.

    Returns:
        The exit status: 0 for success, 1 for a failure that was reported, 2 for wrong arguments, 130 after Ctrl-C.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    command: Callable[[], int]
    if words[:1] == ["bench"]:  # the benchmark parses its options itself
        command = partial(bench, words[1:])
    else:
        options = parser().parse_args(words)
        if options.command == "run":
            return run(options)  # the script handles Ctrl-C
        command = partial(demo, options) if options.command == "demo" else doctor
    try:
        return command()
    except KeyboardInterrupt:
        print("\ndali-proxy: interrupted", file=sys.stderr)
        return 130
    except ImportError as error:
        if error.name != "pipeline":
            raise
        print(f"dali-proxy: {error}", file=sys.stderr)  # a user's module hides our package
        return 1


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="dali-proxy", description="GPU and CPU data loading for PyTorch.")
    top.add_argument("--version", action="version", version=f"dali-proxy {dali_proxy.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    purpose = "train a small network on real images, in under two minutes"
    run = commands.add_parser("demo", help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")
    run.add_argument("--device", default="auto", help="auto (default), cpu, or cuda:0")
    run.add_argument("--data", type=Path, help="use the images in this folder, or write them there if it has none")
    run.add_argument("--keep", action="store_true", help="don't remove the images at the end")
    run.add_argument("--picture", type=Path, help="where to save an image of a batch (default: dali-proxy-demo.png)")
    run.add_argument("--epochs", type=int, help="number of passes over the images (default: 12)")
    run.add_argument("--workers", type=int, help="dataset worker processes (default: 2)")

    commands.add_parser(
        "bench", help="compare this loader's speed with others (in a checkout of the repository)", add_help=False
    )
    script = commands.add_parser(
        "run",
        help="run a script that was written for NVIDIA DALI",
        description=_RUN,
        usage="%(prog)s [-h] [--device {cpu,gpu}] [-m] SCRIPT [ARGUMENT ...]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    script.add_argument(
        "--device",
        choices=("cpu", "gpu"),
        help="cpu: run pipelines for a GPU on the CPU; gpu: on the devices that they declare (default: the environment "
        "variable DALI_PROXY_DEVICE, else gpu)",
    )
    script.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module's name, as for python -m")
    script.add_argument("script", metavar="SCRIPT", help="the script; its `import nvidia.dali` gets our modules")
    rest = script.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="arguments of SCRIPT")
    rest.required = False  # otherwise the error about a missing SCRIPT names it, too

    purpose = "report what is installed on this machine and what is missing"
    commands.add_parser("doctor", help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")
    return top


def demo(options: argparse.Namespace) -> int:
    """Run the demo."""
    from dali_proxy._demo import Settings, run_demo

    options_by_name = {
        "device": options.device,
        "data": options.data,
        "keep": options.keep,
        "picture": options.picture,
        "epochs": options.epochs,
        "num_workers": options.workers,
    }
    try:
        run_demo(Settings(**{name: value for name, value in options_by_name.items() if value is not None}))
    except (FileNotFoundError, ValueError) as error:
        print(f"dali-proxy demo: {error}", file=sys.stderr)
        return 1
    return 0


def bench(arguments: Sequence[str]) -> int:
    """Run the benchmarks, which only the repository has, not the installed package."""
    sys.path.insert(0, str(Path.cwd()))
    if importlib.util.find_spec("benchmarks") is None:
        print("dali-proxy bench: needs a checkout of the repository, which has the benchmarks", file=sys.stderr)
        return 1
    sys.argv = ["dali-proxy bench", *arguments]
    runpy.run_module("benchmarks", run_name="__main__", alter_sys=False)
    return 0


def run(options: argparse.Namespace) -> int:
    """Run a script with dali-proxy's modules in place of NVIDIA's modules."""
    from dali_proxy._nvidia.run import run_script

    if not options.module and not Path(options.script).exists():
        print(f"dali-proxy run: the script {options.script!r} doesn't exist", file=sys.stderr)
        return 2
    run_script(options.script, options.arguments, module=options.module, device=options.device)
    return 0


def doctor() -> int:
    """Print the checks of this machine. Return 1 if a required component is missing."""
    from dali_proxy._doctor import examine

    healthy = True
    for check in examine():
        print(f"{check.status:<9} {check.name:<24} {check.detail}")
        healthy = healthy and check.status != "missing"
    print("Ready." if healthy else "A required component is missing.")
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main())
