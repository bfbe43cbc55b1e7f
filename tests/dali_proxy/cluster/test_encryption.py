"""Servers in a Ray cluster whose connections are encrypted and authenticated with certificates (RAY_USE_TLS=1)."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.environment import with_project

pytestmark = [
    pytest.mark.timeout(600),  # Ray starts
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None and "DALI_PROXY_REQUIRE_CLUSTER" not in os.environ,
        reason="Ray isn't installed: run `make test-cluster`",
    ),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]

PROGRAM = """
import json, socket, ssl, sys
import ray
from dali_proxy import DALIServer, DataLoader, RayCluster
from tests.dali_proxy.indexed import IndexDataset, noisy


def batches(**options):
    with DALIServer(noisy(), mode="thread", **options) as server:
        loader = DataLoader(server, IndexDataset(32, server.proxy), batch_size=8)
        return [(values.tolist(), indices.tolist()) for values, indices in loader]


def greeting(address, context):
    # Returns what the head node answers to a client, or the error.
    try:
        with socket.create_connection(address, 10) as plain:
            client = plain if context is None else context.wrap_socket(plain)
            client.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes(3) + b"\\x04" + bytes(5))
            return client.recv(9).hex()
    except OSError as error:
        return type(error).__name__


def client(certificate):
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    return context


expected = batches()
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
try:
    found = batches(cluster=RayCluster(servers=1, num_cpus=1))
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    known = client(sys.argv[1])
    known.load_cert_chain(sys.argv[1], sys.argv[2])
    address = host, int(port)
    answers = {
        "plain": greeting(address, None),
        "without": greeting(address, client(sys.argv[1])),
        "with": greeting(address, known),
    }
finally:
    ray.shutdown()
print(json.dumps({"same": found == expected, **answers}))
"""


def certificate(folder: Path) -> tuple[Path, Path]:
    """Create a certificate for this machine, which is its own authority, and its key."""
    certificate, key = folder / "node.crt", folder / "node.key"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # finds the address that Ray uses; sends nothing
        probe.connect(("8.8.8.8", 53))
        names = f"subjectAltName=DNS:localhost,IP:127.0.0.1,IP:{probe.getsockname()[0]}"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", names, "-out", str(certificate), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def test_encrypted_cluster_refuses_clients_without_a_certificate() -> None:
    with tempfile.TemporaryDirectory(
        prefix="r", dir="/tmp", ignore_cleanup_errors=True
    ) as name:  # Ray needs short paths
        cert, key = certificate(Path(name))
        environment = with_project(
            RAY_USE_TLS="1",
            RAY_TLS_SERVER_CERT=str(cert),
            RAY_TLS_SERVER_KEY=str(key),
            RAY_TLS_CA_CERT=str(cert),
            RAY_AUTH_MODE="disabled",
            RAY_USAGE_STATS_ENABLED="0",
            RAY_TMPDIR=name,
            TMPDIR=name,
        )
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(cert), str(key)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr[-4000:]
        found = json.loads(run.stdout.splitlines()[-1])
    assert found.pop("same")
    assert found.pop("with")[6:8] == "04", "the settings of HTTP/2"
    assert all(answer in ("", "SSLError", "ConnectionResetError", "BrokenPipeError") for answer in found.values()), (
        found
    )
