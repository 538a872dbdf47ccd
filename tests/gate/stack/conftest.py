"""A tiny wheel of the pinned shape, servers for it on loopback, and a cache of its own per test."""

from __future__ import annotations

import base64
import hashlib
import http.server
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ci.stack.pin import Pin

NAME = "vllm-9.9.9-cp38-abi3-manylinux_2_28_x86_64.whl"
INFO = "vllm-9.9.9.dist-info"
NUMBERED = b"".join(b"line %d\n" % n for n in range(1, 13))

FILES: dict[str, bytes] = {
    "vllm/__init__.py": b"",
    "vllm/_C.abi3.so": b"\x7fELF" + bytes(range(256)) * 900,
    "vllm/m.py": NUMBERED,
    "vllm/n.py": NUMBERED,
    "vllm/config/tuned.json": b'{"a": 1}\n' * 5000,
    "vllm/v1/crlf.py": NUMBERED.replace(b"\n", b"\r\n"),
    "vllm/v1/empty.py": b"",
    "vllm/vllm_tool": b"#!/bin/sh\n",
    f"{INFO}/METADATA": b"Metadata-Version: 2.1\nName: vllm\nVersion: 9.9.9\nRequires-Dist: torch==1\n",
    f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: cp38-abi3-any\n",
}


@dataclass(frozen=True)
class Wheel:
    """A synthetic wheel and the pin that fits it."""

    path: Path
    pin: Pin
    files: dict[str, bytes]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """The tiny wheel on disk."""
    path = tmp_path_factory.mktemp("wheel") / NAME
    rows = []
    for name, data in FILES.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        rows.append(f"{name},sha256={digest},{len(data)}\n")
    record = "".join([*rows, f"{INFO}/RECORD,,\n"]).encode()
    files = {**FILES, f"{INFO}/RECORD": record}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            # Stored, not deflated, so that what is left out of a range read shows in its size.
            info.compress_type = (
                zipfile.ZIP_STORED if name.endswith((".so", ".json", "METADATA")) else zipfile.ZIP_DEFLATED
            )
            info.external_attr = (0o100755 if name.endswith("tool") else 0o100644) << 16
            archive.writestr(info, data)
    pin = Pin(
        vllm="9.9.9",
        wheel=NAME,
        wheel_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        record_sha256=hashlib.sha256(record).hexdigest(),
        torch="1",
        triton="1",
    )
    return Wheel(path, pin, files)


@dataclass
class Server:
    """A file served on loopback, and what was asked of it."""

    url: str
    data: bytes
    ranges: bool = True
    fail: list[int] = field(default_factory=list)
    """Statuses to answer with, one per request, before answering properly."""
    cut: int = 0
    """As many answers break off in the middle."""
    asked: list[str] = field(default_factory=list)
    """Range header of each request, empty if there was none."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Http

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        state = self.server.state
        state.asked.append(self.headers.get("Range", ""))
        if state.fail:
            self.send_error(state.fail.pop(0))
            return
        data, status = state.data, 200
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if match and state.ranges:
            start, stop = int(match[1]), min(int(match[2]) + 1, len(data))
            status, whole, data = 206, len(data), data[start:stop]
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{whole}")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body and state.cut and len(data) > 1:
            state.cut -= 1
            data = data[: len(data) // 2]
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


class _Http(http.server.ThreadingHTTPServer):
    state: Server


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Serve bytes on loopback until the test ends."""
    running: list[_Http] = []

    def start(data: bytes, name: str = NAME, *, ranges: bool = True) -> Server:
        server = _Http(("127.0.0.1", 0), _Handler)
        server.state = Server(f"http://127.0.0.1:{server.server_address[1]}/{name}", data, ranges)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        running.append(server)
        return server.state

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between attempts of a failed transfer, no pause; and no proxy for loopback."""
    monkeypatch.setattr("ci.stack.net.time.sleep", lambda seconds: None)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name in ("FORKPROOF_CACHE", "FORKPROOF_SERIES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def make_series(tmp_path: Path) -> Callable[..., Path]:
    """Write a folder of patches; ``series=None`` leaves the series file out."""

    def make(patches: dict[str, bytes | str], series: str | bytes | None = "") -> Path:
        folder = tmp_path / "patches"
        folder.mkdir(exist_ok=True)
        for name, data in patches.items():
            (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
        if series == "":
            series = "".join(f"{name}\n" for name in patches)
        if series is not None:
            (folder / "series").write_bytes(series.encode() if isinstance(series, str) else series)
        return folder

    return make
