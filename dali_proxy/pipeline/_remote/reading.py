"""Reads and lists what a URL names, through fsspec; tries again after errors that may pass."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._optional import optional_package
from dali_proxy.pipeline._remote.cache import disk_cache
from dali_proxy.pipeline._remote.request_limit import limit_of
from dali_proxy.pipeline._remote.totals import count_remote, count_repeat
from dali_proxy.pipeline._secrets import redacted
from dali_proxy.pipeline.errors import PipelineError

T = TypeVar("T")

_ATTEMPTS = 6
_FIRST_PAUSE = 0.01  # seconds; the batches behind that of a request that failed wait, too. Most errors pass at once
_LONGER = 5  # factor of the pause after each further attempt
_LONGEST_PAUSE = 5.0
_STALLED = 30.0  # seconds without a byte after which a connection of HTTP counts as lost
#: Errors that stay, however often one tries.
_LASTING = (
    FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError, ImportError,
    ValueError, TypeError, MemoryError, PipelineError,
)  # fmt: skip
#: Protocols of fsspec that trust what they read: templates in references, and messages of a Dask scheduler.
_RUN_CODE = ("reference", "dask")
_PASSING_STATUS = (408, 425, 429)  # statuses of HTTP below 500 that ask for another attempt


def read_url(url: str, begin: int | None = None, end: int | None = None) -> bytes:
    """Return the content that a URL names, or the bytes from `begin` up to `end`.

    Raises:
        PipelineError: it can't be read; the message names it.
    """
    cache = disk_cache()
    key = f"{url}\0{begin}\0{end}"
    content = None if cache is None else cache.get(key)
    if content is None:
        content = _repeated(url, "read", lambda: _read(url, begin, end))
        if cache is not None:
            cache.put(key, content)
    return content


def size_of_url(url: str) -> int:
    """Return the size of the content that a URL names, in bytes.

    Raises:
        PipelineError: it can't be read, or its server doesn't report the size.
    """

    def ask() -> int:
        filesystem, path = _filesystem(url)
        size = filesystem.size(path)
        if size is None:
            raise ValueError("its server doesn't report its size")
        return int(size)

    return _repeated(url, "read", ask)


def url_names(url: str, folders: bool) -> list[str]:
    """Return the sorted names of the files (or folders) in the folder that a URL names.

    Raises:
        PipelineError: it can't be listed.
    """

    def ask() -> list[str]:
        filesystem, path = _filesystem(url)
        kind, here = "directory" if folders else "file", path.rstrip("/")
        found = (str(each["name"]).rstrip("/") for each in filesystem.ls(path, detail=True) if each["type"] == kind)
        # Object stores may have an empty object in place of the folder.
        return sorted({name.rpartition("/")[2] for name in found if name != here})

    return _repeated(url, "list", ask)


def _filesystem(url: str) -> tuple[Any, str]:
    refused = next((name for name in re.split("://|::", url) if name in _RUN_CODE), None)
    if refused is not None:
        raise PipelineError(f"{url!r} isn't read: what the protocol {refused!r} reads may run code on this machine")
    core = optional_package("fsspec.core", f"reading {url!r}", "remote")
    options: dict[str, Any] = {}
    if url.startswith(("s3://", "s3a://")):
        options["max_concurrency"] = 1  # otherwise it asks for the size before it reads
    if url.startswith(("http://", "https://")):  # the default waits for five minutes
        aiohttp = optional_package("aiohttp", f"reading {url!r}", "remote")
        options["client_kwargs"] = {
            "timeout": aiohttp.ClientTimeout(total=None, sock_connect=_STALLED, sock_read=_STALLED)
        }
    try:
        filesystem, path = core.url_to_fs(url, **options)
    except ImportError as error:
        raise PipelineError(f"reading {url!r} needs a package that can't be imported: {error}") from error
    return filesystem, path


def _read(url: str, begin: int | None, end: int | None) -> bytes:
    filesystem, path = _filesystem(url)
    content: bytes = filesystem.cat_file(path, start=begin, end=end)
    if begin is not None and end is not None and len(content) != end - begin:
        if len(content) < end:  # a server that ignores ranges sends everything
            raise OSError(f"{len(content)} bytes arrived instead of {end - begin}")
        content = content[begin:end]
    return content


def _repeated(url: str, verb: str, call: Callable[[], T]) -> T:
    """Call a function, again and again while it fails with errors that may pass."""
    pause, limit = _FIRST_PAUSE, limit_of(url)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with limit.request(urgent=attempt > 1):
                begin = time.perf_counter()
                answer = call()
            count_remote(len(answer) if isinstance(answer, bytes) else 0, time.perf_counter() - begin)
            return answer
        except PipelineError:
            raise
        except Exception as error:  # noqa: BLE001 - of any filesystem
            pass_on_interrupt(error)
            if attempt == _ATTEMPTS or not _may_pass(error):
                tries = f" ({attempt} attempts)" if attempt > 1 else ""
                reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                shown = redacted(reason)
                raise PipelineError(f"can't {verb} {url!r}{tries}: {reason}") from (
                    error if shown == reason else PipelineError(shown)  # a traceback would show the error's own text
                )
        count_repeat()
        time.sleep(pause * random.uniform(0.5, 1.0))  # ranks that failed together don't return together
        pause = min(_LONGER * pause, _LONGEST_PAUSE)
    raise AssertionError("the last attempt returns or raises")


def _may_pass(error: BaseException) -> bool:
    cause = error.__cause__
    if isinstance(error, FileNotFoundError) and type(cause).__module__.startswith("aiohttp"):
        assert cause is not None
        return _may_pass(cause)  # fsspec says "not found" whatever a server answers to a request for the size
    status = getattr(error, "status", None)
    if isinstance(status, int) and 400 <= status < 500:
        return status in _PASSING_STATUS
    return not isinstance(error, _LASTING)
