"""Reading from Google Cloud Storage and the Hugging Face Hub: with their own clients, from a local stub of each."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.environment import with_project
from tests.preloaded import run_python

pytest.importorskip("fsspec", reason="needs fsspec")

FILES = {f"train/{label}/{number}.jpg": f"{label}{number}".encode() * 100 for label in "ab" for number in range(6)}
SHA = "0" * 40

READ = """
import sys
import numpy as np
from pipeline import fn, pipeline_def

root = sys.argv[1]

@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def photos():
    files, labels = fn.readers.file(file_root=root + "/train", name="photos", pad_last_batch=True)
    return files, labels, fn.io.file.read(fn.external_source(name="paths"))

pipe = photos()
seen = set()
url = np.frombuffer((root + "/train/a/3.jpg").encode(), np.uint8)
for _ in range(3):
    files, labels, chosen = pipe.run(paths=[url] * 4)
    seen |= {(int(label[0]), np.asarray(file).tobytes()) for file, label in zip(files, labels.as_array())}
    assert np.asarray(chosen.at(2)).tobytes() == b"a3" * 100
assert seen == {(number, f"{label}{index}".encode() * 100) for number, label in enumerate("ab") for index in range(6)}
pipe.close()
"""


class Store(BaseHTTPRequestHandler):
    """Answers the requests for reading of both services. Every fourth download fails."""

    protocol_version = "HTTP/1.1"
    downloads = 0
    failed = 0

    def log_message(self, *arguments: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        wanted = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self._answer([entry for path in wanted.get("paths", []) for entry in hub_entries(path)])

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path, query = unquote(url.path), {name: values[0] for name, values in parse_qs(url.query).items()}
        if found := re.fullmatch(r"(?:/download)?/storage/v1/b/bucket/o/(.+)", path):
            if query.get("alt") == "media":
                self._download(found[1])
            else:
                self._answer(google_object(found[1]) if found[1] in FILES else None)
        elif path == "/storage/v1/b/bucket/o":
            self._answer(google_listing(query.get("prefix", ""), query.get("delimiter")))
        elif path == "/storage/v1/b/bucket":
            self._answer({"kind": "storage#bucket", "name": "bucket"})
        elif found := re.fullmatch(r"/datasets/me/bucket/resolve/[^/]+/(.+)", path):
            self._download(found[1])
        elif found := re.fullmatch(r"/api/datasets/me/bucket/tree/[^/]+(?:/(.+))?", path):
            folder = f"{found[1]}/" if found[1] else ""
            deep = query.get("recursive") == "true"
            inside = {
                name if deep else folder + name[len(folder) :].split("/")[0]
                for name in FILES
                if name.startswith(folder)
            }
            self._answer([entry for name in sorted(inside) for entry in hub_entries(name)])
        elif re.fullmatch(r"/api/datasets/me/bucket(/revision/[^/]+)?", path):
            self._answer({"id": "me/bucket", "sha": SHA, "siblings": []})
        else:
            self._answer(None)

    def _download(self, name: str) -> None:
        Store.downloads += 1
        if Store.downloads % 4 == 0:
            Store.failed += 1
            self._send(503, b"later")
            return
        content = FILES.get(name, b"")
        first, last = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "bytes=0-")).groups()  # type: ignore[union-attr]
        part = content[int(first) : int(last) + 1 if last else None]
        self._send(
            206 if "Range" in self.headers else 200,
            part,
            **{
                "Content-Range": f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}",
                "ETag": '"1"',
                "X-Repo-Commit": SHA,
            },
        )

    def _answer(self, value: object) -> None:
        self._send(
            200 if value is not None else 404, json.dumps(value).encode(), **{"Content-Type": "application/json"}
        )

    def _send(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def google_object(name: str) -> dict[str, object]:
    """Describe an object like Google's service."""
    return {
        "kind": "storage#object",
        "name": name,
        "bucket": "bucket",
        "size": str(len(FILES[name])),
        "generation": "1",
    }


def google_listing(prefix: str, delimiter: str | None) -> dict[str, object]:
    """List objects like Google's service."""
    items, prefixes = [], set()
    for name in FILES:
        rest = name.removeprefix(prefix)
        if not name.startswith(prefix):
            continue
        if delimiter and delimiter in rest:
            prefixes.add(prefix + rest.split(delimiter)[0] + delimiter)
        else:
            items.append(google_object(name))
    return {"kind": "storage#objects", "items": items, "prefixes": sorted(prefixes)}


def hub_entries(name: str) -> list[dict[str, object]]:
    """Describe a file or folder like the Hub: nothing if it doesn't exist."""
    if name in FILES:
        return [{"type": "file", "path": name, "size": len(FILES[name]), "oid": SHA}]
    return [{"type": "directory", "path": name, "oid": SHA}] * any(each.startswith(f"{name}/") for each in FILES)


@pytest.fixture
def store() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="store")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("root", "package", "variables"),
    [
        (
            "gcs://bucket",
            "gcsfs",
            {
                "FSSPEC_GCS_ENDPOINT_URL": "{}",
                "FSSPEC_GCS_TOKEN": "anon",
                "STORAGE_EMULATOR_HOST": "{}",
                "NO_GCE_CHECK": "true",
                "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            },
        ),
        ("hf://datasets/me/bucket", "huggingface_hub", {"HF_ENDPOINT": "{}", "HF_HUB_DISABLE_TELEMETRY": "1"}),
    ],
)
def test_files_of_a_store_are_read_in_spite_of_faults(
    root: str, package: str, variables: dict[str, str], store: str, tmp_path: Path
) -> None:
    if importlib.util.find_spec(package) is None and "DALI_PROXY_REQUIRE_CLUSTER" not in os.environ:
        pytest.skip(f"{package} isn't installed: run `make test-cluster`")
    Store.downloads = Store.failed = 0
    environment = with_project(
        HF_HOME=str(tmp_path), **{name: value.format(store) for name, value in variables.items()}
    )
    done = run_python("-c", READ, root, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert Store.failed > 2
