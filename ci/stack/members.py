"""Single files out of the pinned wheel, without the rest of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ci.stack.errors import RecordError, WheelMismatchError
from ci.stack.locate import locate_wheel
from ci.stack.pin import Pin
from ci.stack.progress import Progress
from ci.stack.ranges import RangesRefusedError, RemoteFile, SparseFile
from ci.stack.record import parse_record
from ci.stack.wheel import Locate, inflate, open_wheel, read_member


def read_files(
    pin: Pin, paths: Sequence[str], cache: Path, progress: Progress, locate: Locate = locate_wheel
) -> dict[str, bytes]:
    """Single files of the wheel, by ranges where they are remote, each checked against RECORD.

    Raises:
        RecordError: RECORD does not list one of them, or its content differs.
        WheelMismatchError: the server refuses ranges; the whole wheel is then the way.
    """
    kept = cache / "wheels" / pin.wheel
    source = None if kept.is_file() else locate(pin, cache)
    local = kept if source is None else source.local
    try:
        stream = local.open("rb") if local else SparseFile(RemoteFile(source.url if source else ""))
    except RangesRefusedError as error:
        raise WheelMismatchError(
            f"the server of {pin.wheel} refuses range requests",
            remedy="python -m ci stack build --flavour full keeps the whole wheel in the cache",
        ) from error
    with stream, open_wheel(stream, pin.wheel) as archive:
        record = parse_record(inflate(archive, archive.getinfo(f"{pin.dist_info}/RECORD")), pin)
        for path in paths:
            if path not in record.files:
                raise RecordError(f"{path}: not a file of vllm {pin.vllm}", remedy="see the wheel's RECORD")
        if isinstance(stream, SparseFile):
            infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
            ends = [info.header_offset for info in infos[1:]] + [archive.start_dir]
            spans = zip(infos, ends, strict=True)
            stream.prefetch([(i.header_offset, end) for i, end in spans if i.filename in paths], progress)
        return {path: read_member(archive, archive.getinfo(path), record) for path in paths}
