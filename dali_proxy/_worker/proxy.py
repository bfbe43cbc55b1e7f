"""The proxy: datasets call it to send samples to the server, and it returns placeholders."""

from __future__ import annotations

import inspect
import os
from typing import Any

from dali_proxy._transport.endpoint import Endpoint
from dali_proxy._worker.inputs import as_input_array
from dali_proxy._worker.placeholders import SampleRef, register_with_pytrees, register_with_torch
from dali_proxy._worker.worker import WorkerClient, process_of_batch, worker_client
from dali_proxy.errors import PlaceholderError, ProxyCallError, SampleTypeError
from dali_proxy.pipeline._dynamic.structure import fill

_NAME = "sample_name"


class Proxy:
    """Sends samples to a server. Call `DALIServer.proxy` in a dataset, in place of a transform.

    Pass a single input by position or by name, and several inputs by name. The call copies each input to shared memory
    before it returns, so the dataset may reuse its buffers. It returns a `SampleRef`, or a tuple with one for each
    output if the pipeline has several. For a function that returns a dict, a dataclass or a nested structure, it
    returns the same structure. Return these from `__getitem__`.

    `sample_name` identifies the sample in errors, in addition to its dataset index: a file's path, for example. (If the
    pipeline has an input of this name, the argument is that input.)

    A proxy can be pickled, so datasets that hold it work with fork, spawn and forkserver.

    Raises:
        ProxyCallError: the number or the names of the inputs are wrong.
        SampleTypeError: an input isn't data that pipelines can read.
        ServerClosedError: the server isn't running.

    Example:
        >>> dataset = ImageDataset(folder, transform=server.proxy)  # doctest: +SKIP
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._clients: list[WorkerClient | None] = [None] * endpoint.processes
        self._outputs = range(endpoint.outputs)
        self._one_output = endpoint.outputs == 1 and endpoint.structure is None
        self._names = [spec.name for spec in endpoint.inputs]
        self._named = frozenset(self._names)
        self._only_input = endpoint.inputs[0] if len(endpoint.inputs) == 1 else None
        self._takes_name = all(spec.name != _NAME for spec in endpoint.inputs)
        parameter = inspect.Parameter
        kind = parameter.POSITIONAL_OR_KEYWORD if len(endpoint.inputs) == 1 else parameter.KEYWORD_ONLY
        self.__signature__ = inspect.Signature(
            [
                *[parameter(spec.name, kind, annotation=Any) for spec in endpoint.inputs if spec.name.isidentifier()],
                *([parameter(_NAME, parameter.KEYWORD_ONLY, default=None)] if self._takes_name else ()),
            ]
        )
        register_with_torch(endpoint.structure)
        register_with_pytrees()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = None
        if kwargs and self._takes_name and (name_argument := kwargs.pop(_NAME, None)) is not None:
            name = os.fsdecode(name_argument) if isinstance(name_argument, bytes) else str(name_argument)
        try:
            if self._only_input is not None and len(args) == 1 and not kwargs:
                arrays = [as_input_array(args[0], self._only_input)]
            else:
                arrays = list(map(as_input_array, self._bind(args, kwargs), self._endpoint.inputs))
        except (SampleTypeError, PlaceholderError) as error:
            if name is None:
                raise
            raise type(error)(f"{error} (sample name: {name})") from error.__cause__
        number = 0 if len(self._clients) == 1 else process_of_batch(self._endpoint)
        client = self._clients[number]
        sample = None if client is None else client.sample(arrays, name)
        while sample is None:  # the server was started again, or this is a forked child
            client = self._clients[number] = worker_client(self._endpoint.of_process(number))
            sample = client.sample(arrays, name)
        if self._one_output:
            return SampleRef(sample, 0)
        refs = tuple([SampleRef(sample, output) for output in self._outputs])
        return refs if self._endpoint.structure is None else fill(self._endpoint.structure, refs)

    def __repr__(self) -> str:
        return f"<dali_proxy proxy{self.__signature__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Proxy, (self._endpoint,))

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        names = self._names
        if not args and kwargs.keys() == self._named:
            return [kwargs[name] for name in names]
        if len(names) == 1:
            if args:
                raise ProxyCallError(
                    f"the pipeline has one input, {names[0]!r}, but the proxy got {len(args) + len(kwargs)}"
                )
        elif args:
            got = len(args) + len(kwargs)
            raise ProxyCallError(
                f"the pipeline has {len(names)} inputs{f', but the proxy got {got}' * (got != len(names))}: pass them "
                f"by name, proxy({', '.join(f'{name}=...' for name in names)})"
            )
        unknown = [name for name in kwargs if name not in names]
        unused = [name for name in unknown if name in self._endpoint.unused]
        faults = {
            "declared, but no output depends on it": unused,
            "unknown": [name for name in unknown if name not in unused],
            "missing": [name for name in names if name not in kwargs],
        }
        wrong = [f"{what}: {', '.join(which)}" for what, which in faults.items() if which]
        raise ProxyCallError(f"the pipeline's inputs are {', '.join(names)}; {'; '.join(wrong)}")
