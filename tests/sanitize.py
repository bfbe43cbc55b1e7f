"""Check the GPU tests of the kernels with NVIDIA's compute-sanitizer.

    python -m tests.sanitize
    python -m tests.sanitize --tool racecheck -k resample -x

The program is in the CUDA toolkit, and in the package nvidia-cuda-sanitizer-api for CUDA 13 from version 13.5 on.
`memcheck` finds accesses outside of allocations, `racecheck` finds races in shared memory. For these runs, CuPy makes a
separate allocation for each array: in its pool, an access outside of one array would hit another one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig

TOOLS = ("memcheck", "racecheck")
TESTS = ("tests/pipeline/kernels", "tests/pipeline/operators/test_gpu_forms.py")
LEFT_OUT = "not ipc"  # other processes, and calls that fail on purpose
PROGRAM = "import sys, cupy, pytest; cupy.cuda.set_allocator(None); sys.exit(pytest.main(sys.argv[1:]))"
FOUND = 86  # exit status of compute-sanitizer after an error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", choices=TOOLS, action="append", help="the tools to use; by default all")
    arguments, rest = parser.parse_known_args()
    folders = [os.environ.get("PATH", ""), f"{sysconfig.get_path('purelib')}/nvidia/cu13/bin", "/usr/local/cuda/bin"]
    sanitizer = shutil.which("compute-sanitizer", path=os.pathsep.join(folders))
    if sanitizer is None:
        print("compute-sanitizer isn't installed: pip install 'nvidia-cuda-sanitizer-api>=13.5', or add it to PATH")
        return 1
    status = 0
    for tool in arguments.tool or TOOLS:
        command = [sanitizer, f"--tool={tool}", f"--error-exitcode={FOUND}", "--target-processes=application-only"]
        if tool == "memcheck":
            command.append("--report-api-errors=no")  # CuPy asks for things that may not exist
        tests = [sys.executable, "-c", PROGRAM, "-q", "-m", "gpu", "-k", LEFT_OUT, "--timeout=0", *TESTS]
        print(f"== {tool}", flush=True)
        status = subprocess.run([*command, *tests, *rest], check=False).returncode or status
    return status


if __name__ == "__main__":
    sys.exit(main())
