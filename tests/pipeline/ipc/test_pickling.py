"""User functions in processes that don't run the user's script."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from dali_proxy.pipeline._ipc import pickling
from pipeline import dynamic, fn
from pipeline.errors import SerializationError
from tests.environment import with_project

JOB = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor

OFFSET = 5

class Adder:
    def __call__(self, number):
        return number + OFFSET

def plus(number):
    return Adder()(number)

def dumped(_=None):
    from dali_proxy.pipeline._ipc.pickling import dumps
    return dumps(plus, {}).hex()

if __name__ == "__main__":
    if len(sys.argv) > 1:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(sys.argv[1])) as pool:
            print(pool.submit(dumped).result())
    else:
        print(dumped())
"""

LOADED = """
import importlib.util, runpy, sys
spec = importlib.util.spec_from_file_location("plugin", sys.argv[1])
module = sys.modules["plugin"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(module.dumped())
print(runpy.run_path(sys.argv[1])["dumped"]())
"""

IMPORTED = """
import os, sys
sys.path[0] = ""
import job
os.chdir("/")
print(job.dumped())
"""

LOADS = """
import sys
from dali_proxy.pipeline._ipc.pickling import loads
for line in sys.stdin:
    print(loads(bytes.fromhex(line))(1))
"""


def run(*words: str, folder: Path, text: str = "") -> str:
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=folder, env=with_project(), input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_functions_defined_anywhere_can_be_sent(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as archive:
        archive.writestr("__main__.py", JOB)
    dumped = [
        run("job.py", folder=tmp_path),
        run("job.py", "spawn", folder=tmp_path),
        run("-", folder=tmp_path, text=JOB),
        run("app.pyz", folder=tmp_path),
        run("-c", LOADED, str(script), folder=tmp_path),
        run("-c", IMPORTED, folder=tmp_path),
    ]
    loaded = run("-c", LOADS, folder=Path(__file__).parent, text="".join(dumped))
    assert loaded.split() == ["6"] * 7


def test_functions_of_modules_travel_by_name() -> None:
    for function in (run, functools.partial(run, folder=Path()), importlib.import_module, pytest.raises):
        assert len(pickling.dumps(function, {})) < 300


def test_modules_stay_unregistered() -> None:
    import cloudpickle

    before = cloudpickle.list_registry_pickle_by_value()
    pickling.dumps(JOB, {})
    assert cloudpickle.list_registry_pickle_by_value() == before


def test_error_names_the_unpicklable_function_and_its_variables() -> None:
    lock = threading.Lock()

    def guarded() -> None:
        with lock:
            pass

    with pytest.raises(SerializationError) as caught:
        pickling.dumps((len, guarded), {"'first'": len, "'second'": guarded})
    for words in ("guarded (", "test_pickling.py:", "used by 'second'", "cannot pickle", "It uses lock (of type lock)"):
        assert words in str(caught.value)


def test_error_of_loading_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone_module.py").write_text("def function(): pass")
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        data = pickling.dumps(importlib.import_module("gone_module").function, {})
    del sys.modules["gone_module"]
    with pytest.raises(SerializationError, match=r"No module named 'gone_module'.*the import must work"):
        pickling.loads(data)


@pytest.mark.parametrize("module", [fn.random, dynamic.random, fn.readers], ids=lambda module: module.__name__)
def test_modules_of_operators_are_pickled_by_name(module: ModuleType) -> None:
    assert pickling.loads(pickling.dumps(module, {})) is module
