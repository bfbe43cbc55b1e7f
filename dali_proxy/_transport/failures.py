"""Transport of a batch's error from the server to the consumer."""

from __future__ import annotations

import builtins
import importlib
import json
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from dali_proxy import pipeline
from dali_proxy._transport.fields import clip, indices_of_labels
from dali_proxy._transport.protocol import Failure
from dali_proxy.errors import BatchError, RemoteError
from dali_proxy.pipeline._graph.location import user_traceback
from dali_proxy.pipeline._listing import listed
from dali_proxy.pipeline._secrets import redacted
from dali_proxy.pipeline.errors import OperatorError, PipelineError

_LONG = 1 << 16  # maximum size of a long text, in bytes
_SAMPLES = 4096  # maximum number of failed samples to list
_LONG_LABEL = 512  # maximum size of a sample's label, in bytes


def describe(
    error: BaseException,
    client: int,
    seq: int,
    indices: Sequence[str],
    worker: str,
    pid: int,
    paths: Sequence[Sequence[str]] = (),
    names: Sequence[str] = (),
) -> Failure:
    """Return the message for an error of a batch.

    Args:
        error: the exception.
        client: client that submitted the batch.
        seq: the client's number for the batch.
        indices: dataset indices of its samples, as text.
        worker: name of the process that submitted it.
        pid: ID of that process.
        paths: for each sample, the paths of its files; empty if no input has paths.
        names: names of its samples, if the proxy got any.
    """
    samples: list[int] = []
    operator = location = ""
    if isinstance(error, OperatorError):
        operator, location = error.operator, error.location
        samples = [failure.sample for failure in error.failures][:_SAMPLES]
    origin = error.__cause__ if isinstance(error, OperatorError) and error.__cause__ is not None else error
    return Failure(
        client=client,
        seq=seq,
        type_name=clip(f"{type(origin).__module__}:{type(origin).__qualname__}"),
        arguments=_arguments(origin),
        message=clip(redacted(str(error)), _LONG),
        operator=clip(operator),
        source_line=clip(location),
        samples=tuple(samples),
        indices=_of_samples(indices, samples),
        paths=_failed_files(error, paths),
        names=_of_samples(list(map(redacted, names)), samples),
        worker=worker,
        worker_pid=pid,
        traceback=clip(redacted(_formatted(error)), _LONG),
    )


def _failed_files(error: BaseException, paths: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the files of the failed samples: of each sample, those that its error names, or all if it names none."""
    found: list[str] = []
    for failure in error.failures[:_SAMPLES] if isinstance(error, OperatorError) else ():
        files = [path for path in paths[failure.sample] if path] if failure.sample < len(paths) else []
        found += [path for path in files if path in str(failure.error)] or files
    return tuple(clip(redacted(path), _LONG_LABEL) for path in found[:_SAMPLES])


def _formatted(error: BaseException) -> str:
    each: BaseException | None = error
    done: set[int] = set()  # users' code may create cycles
    while each is not None and id(each) not in done:
        done.add(id(each))
        each.__traceback__ = user_traceback(each)
        each = each.__cause__ or each.__context__
    return "".join(traceback.format_exception(error))


def rebuild(failure: Failure) -> BatchError:
    """Return the exception to raise for a failure; the original exception is its `__cause__`."""
    worker = f"{failure.worker} (pid {failure.worker_pid})" if failure.worker_pid else failure.worker
    lines = [failure.message]
    known = [(index, sample) for sample, index in zip(failure.samples, failure.indices, strict=False) if index]
    if len(known) == 1:
        lines.append("dataset index: {} (sample {} of the batch)".format(*known[0]))
    elif known:
        indices, samples = zip(*known, strict=True)
        lines.append(f"dataset indices: {listed(indices)} (samples {listed(samples)} of the batch)")
    elif failure.samples:
        lines.append(f"samples of the batch: {listed(failure.samples)}")
    unnamed = [path for path in failure.paths if path not in failure.message]
    if unnamed:
        lines.append(f"file: {listed(unnamed)}")
    if any(failure.names):
        lines.append(f"sample name: {listed([name or '(none)' for name in failure.names])}")
    lines.append(f"submitted by: {worker}")
    error = BatchError(
        "\n  ".join(lines),
        operator=failure.operator,
        source_line=failure.source_line,
        samples=failure.samples,
        dataset_indices=indices_of_labels(failure.indices),
        sample_names=failure.names if any(failure.names) else (),
        paths=failure.paths,
        worker=worker,
        remote_traceback=failure.traceback,
    )
    error.__cause__ = _cause(failure)
    return error


def _of_samples(labels: Sequence[str], samples: Sequence[int]) -> tuple[str, ...]:
    return tuple(clip(labels[sample], _LONG_LABEL) for sample in samples if sample < len(labels))


def _arguments(error: BaseException) -> str:
    try:
        text = redacted(json.dumps(error.args))
    except (TypeError, ValueError):
        return ""
    return text if len(text) <= _LONG else ""


def _cause(failure: Failure) -> BaseException:
    """Rebuild the original exception if its type belongs to Python or this project and accepts its arguments."""
    remote = RemoteError(f"\n{failure.traceback}")
    module, _, name = failure.type_name.partition(":")
    kind: Any = None
    if module == "builtins":
        kind = getattr(builtins, name, None)
    elif module.startswith((f"{pipeline.__name__}.", "dali_proxy.")):
        kind = getattr(importlib.import_module(module), name, None)
    elif module.partition(".")[0] in sys.stdlib_module_names and module in sys.modules:
        kind = getattr(sys.modules[module], name, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseException) and failure.arguments):
        return remote
    try:
        cause = kind(*json.loads(failure.arguments))
    except Exception:  # noqa: BLE001  # its constructor doesn't accept `args`
        return remote
    if not isinstance(cause, PipelineError):
        cause.__cause__ = remote
    return cause
