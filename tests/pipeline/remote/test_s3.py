"""Reading from an S3 server that is slow and sometimes fails."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.environment import with_project
from tests.preloaded import run_python

if "DALI_PROXY_REQUIRE_CLUSTER" not in os.environ:  # `make test-cluster` sets it, and fails without these packages
    for package in ("moto", "flask_cors", "s3fs"):
        pytest.importorskip(package, reason=f"{package} isn't installed: run `make test-cluster`")

LATENCY = 0.02
KEYS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}

FILL = """
import s3fs
bucket = s3fs.S3FileSystem()
bucket.mkdir("images")
for label in "ab":
    bucket.pipe({f"images/train/{label}/{number}.jpg": f"{label}{number}".encode() * 100 for number in range(20)})
"""

READ = """
import numpy as np
from pipeline import fn, pipeline_def

@pipeline_def(batch_size=16, num_threads=2, device_id=None)
def photos():
    files, labels = fn.readers.file(file_root="s3://images/train", name="photos", pad_last_batch=True)
    paths = fn.external_source(name="paths")
    return files, labels, fn.io.file.read(paths)

pipe = photos()
seen = set()
url = np.frombuffer(b"s3://images/train/a/3.jpg", np.uint8)
for _ in range(3):
    files, labels, chosen = pipe.run(paths=[url] * 16)
    seen |= {(int(label[0]), np.asarray(file).tobytes()) for file, label in zip(files, labels.as_array())}
    assert np.asarray(chosen.at(5)).tobytes() == b"a3" * 100
assert seen == {(number, f"{label}{index}".encode() * 100) for number, label in enumerate("ab") for index in range(20)}
pipe.close()
"""


class FaultyServer:
    """Answers slowly; every fifth request to read gets an error, a different one each time."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._count = itertools.count(1)
        self._statuses = itertools.cycle(["503 Slow Down", "500 Internal Server Error"])
        self.failed = 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        time.sleep(LATENCY)
        if environ["REQUEST_METHOD"] == "GET" and next(self._count) % 5 == 0:
            self.failed += 1
            start_response(next(self._statuses), [("Content-Type", "application/xml")])
            return [b"<Error><Code>SlowDown</Code><Message>later</Message></Error>"]
        return self._application(environ, start_response)


@pytest.fixture
def server() -> Iterator[tuple[str, FaultyServer]]:
    from moto.moto_server import werkzeug_app
    from werkzeug.serving import make_server

    faulty = FaultyServer(werkzeug_app.DomainDispatcherApplication(werkzeug_app.create_backend_app))
    listening = make_server("127.0.0.1", 0, faulty, threaded=True)
    thread = threading.Thread(target=listening.serve_forever, name="S3 server")
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.port}", faulty
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def test_objects_are_read_in_spite_of_faults(server: tuple[str, FaultyServer], tmp_path: Path) -> None:
    url, faulty = server
    environment = with_project(AWS_ENDPOINT_URL=url, DALI_PROXY_CACHE=str(tmp_path / "cache"), **KEYS)
    for program in (FILL, READ):
        done = run_python("-c", program, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
    assert faulty.failed > 5
    before = next(faulty._count)
    assert run_python("-c", READ, cwd=tmp_path, env=environment).returncode == 0
    assert next(faulty._count) - before < 8  # only listings: the objects are in the cache
