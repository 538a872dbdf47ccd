"""XML from a stranger: no DOCTYPE, no entities, bounded; damaged files are mended and marked.

Nothing here knows JUnit.  Elements are handed on as they close, so that what
stood whole before a cut is still read.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Generic, Protocol, TypeVar

from lxml import etree

from ci.errors import GateError

_CHUNK_BYTES = 1 << 16
_REMEDY = "run the suite again; if the tool that wrote the file always writes it so, mend the tool"
_DECLARATION = re.compile(r"\s*<\?xml\b[^>]*\?>")
_DECLARED_ENCODING = re.compile(rb"""<\?xml\b[^>]*?\bencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_PROLOG_THEN_DOCTYPE = re.compile(
    r"(?:\s|\ufeff|<\?(?:(?!\?>).)*\?>|<!--(?:(?!-->).)*-->)*<!(?:DOCTYPE|ENTITY)", re.DOTALL
)
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REFERENCE = re.compile(r"&#(?:x([0-9A-Fa-f]{1,8})|([0-9]{1,10}));")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ASCII_COMPATIBLE = re.compile(r"utf-?8|(us-)?ascii|iso-?8859-?\d+|latin-?\d|windows-125\d|cp125\d|koi8-[ru]")


class XmlError(GateError):
    """An XML file of which nothing can be used."""


class XmlEmptyError(XmlError):
    """The file has no content."""


class DoctypeError(XmlError):
    """The file declares a document type, which could define entities or name other files."""


class ConcatenatedXmlError(XmlError):
    """Something follows the document, such as a second document with its own failures."""


class NotXmlError(XmlError):
    """The file has no root element."""


class Sink(Protocol):
    """Receives elements in document order."""

    def start(self, tag: str, element: etree._Element) -> None:
        """Handle an opened element: its attributes are there, its children are not."""

    def end(self, tag: str, element: etree._Element) -> None:
        """Handle a closed element with all its children."""


S = TypeVar("S", bound=Sink)


@dataclass(frozen=True)
class Parsed(Generic[S]):
    """What could be read.

    ``repairs`` lists what had to be mended first; ``problem`` is the parser's
    message if the document stops making sense before its end.
    """

    sink: S
    repairs: tuple[str, ...]
    problem: str | None


@dataclass
class _Attempt(Generic[S]):
    sink: S
    depth: int = 0
    seen_root: bool = False
    problem: str | None = None


def local_name(element: etree._Element) -> str:
    """Return the tag without its namespace; lxml's QName refuses some tags that its parser accepts."""
    return str(element.tag).rpartition("}")[2]


def parse_xml(path: Path, data: bytes, make_sink: Callable[[], S]) -> Parsed[S]:
    """Hand the elements of ``data`` to a sink; mend and start over with a new sink if need be.

    Namespaces are dropped from the tags.

    Raises:
        XmlEmptyError, DoctypeError, ConcatenatedXmlError, NotXmlError: nothing can be used.
    """
    if not data.strip(b" \t\r\n\0"):
        raise XmlEmptyError(f"{path}: the file is empty", remedy=_REMEDY)
    _refuse_doctype(path, _decode(data[:_CHUNK_BYTES])[0])
    attempt = _feed(path, _chunks(data), make_sink())
    repairs: tuple[str, ...] = ()
    if attempt.problem is not None:
        mended, repairs = _mend(data)
        if repairs:
            _refuse_doctype(path, mended[:_CHUNK_BYTES])
            attempt = _feed(path, _chunks(mended.encode("utf-8")), make_sink())
    return _finish(path, attempt, repairs)


def stream_xml(path: Path, stream: BinaryIO, sink: S) -> Parsed[S]:
    """Hand the elements of a large file to ``sink`` without holding it in memory; nothing is mended.

    Raises:
        XmlEmptyError, DoctypeError, ConcatenatedXmlError, NotXmlError: nothing can be used.
    """
    first = stream.read(_CHUNK_BYTES)
    if not first.strip(b" \t\r\n\0"):
        raise XmlEmptyError(f"{path}: the file is empty or starts with nothing but blanks", remedy=_REMEDY)
    _refuse_doctype(path, _decode(first)[0])
    rest = iter(lambda: stream.read(_CHUNK_BYTES), b"")
    return _finish(path, _feed(path, itertools.chain([first], rest), sink), ())


def _finish(path: Path, attempt: _Attempt[S], repairs: tuple[str, ...]) -> Parsed[S]:
    if not attempt.seen_root:
        raise NotXmlError(f"{path}: no XML document: {attempt.problem}", remedy=_REMEDY)
    if attempt.problem is not None and attempt.depth == 0:
        raise ConcatenatedXmlError(
            f"{path}: something follows the end of the document: {attempt.problem}",
            cause="two result files were written into one",
            remedy=_REMEDY,
        )
    return Parsed(attempt.sink, repairs, attempt.problem)


def _chunks(data: bytes) -> Iterator[bytes]:
    return (data[begin : begin + _CHUNK_BYTES] for begin in range(0, len(data), _CHUNK_BYTES))


def _feed(path: Path, chunks: Iterable[bytes], sink: S) -> _Attempt[S]:
    """Parse strictly; stop at the first error, after the elements before it were handed on."""
    attempt = _Attempt(sink)
    parser = etree.XMLPullParser(
        events=("start", "end"), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    for chunk in chunks:
        try:
            parser.feed(chunk)
        except etree.XMLSyntaxError as error:
            attempt.problem = str(error)
        _hand_on(path, parser, attempt)
        if attempt.problem is not None:
            return attempt
    try:
        parser.close()
    except etree.XMLSyntaxError as error:
        attempt.problem = str(error)
    _hand_on(path, parser, attempt)
    return attempt


def _hand_on(path: Path, parser: etree.XMLPullParser, attempt: _Attempt[S]) -> None:
    for event, element in parser.read_events():
        tag = local_name(element)
        if event == "start":
            if not attempt.seen_root:
                attempt.seen_root = True
                if element.getroottree().docinfo.doctype:  # in an encoding that hid it from the first look
                    raise _doctype(path)
            attempt.depth += 1
            attempt.sink.start(tag, element)
        else:
            attempt.depth -= 1
            attempt.sink.end(tag, element)


def _mend(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the document as text without its declaration, and what had to be changed."""
    text, repairs = _decode(data)
    text = text.removeprefix("\ufeff")
    if text[:1].isspace():
        repairs.append("blank before the declaration removed")
        text = text.lstrip()
    text = _DECLARATION.sub("", text, count=1) if _DECLARATION.match(text) else text
    text, removed = _ILLEGAL.subn("", text)
    if removed:
        repairs.append(f"{removed} characters illegal in XML removed")
    legal = _REFERENCE.sub(_legal_reference, text)
    if legal != text:
        repairs.append("references to illegal characters removed")
    return legal, tuple(repairs)


def _decode(data: bytes) -> tuple[str, list[str]]:
    """Decode by byte order mark, else by declaration, else as UTF-8 with replacements."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _decode_as(data, encoding)
    if data[:2] in (b"<\0", b"\0<"):
        return _decode_as(data, "utf-16-le" if data[0] else "utf-16-be")
    match = _DECLARED_ENCODING.match(data.lstrip())
    declared = match.group(1).decode("ascii").lower() if match else "utf-8"
    if _ASCII_COMPATIBLE.fullmatch(declared):
        return _decode_as(data, declared)
    text, repairs = _decode_as(data, "utf-8")
    return text, [f"declared encoding {declared} dropped", *repairs]


def _decode_as(data: bytes, encoding: str) -> tuple[str, list[str]]:
    try:
        return data.decode(encoding), []
    except (UnicodeError, LookupError):
        known = encoding if encoding.startswith("utf") else "utf-8"
        return data.decode(known, "replace"), [f"bytes that are no {known} replaced"]


def _legal_reference(match: re.Match[str]) -> str:
    code = int(match.group(1), 16) if match.group(1) else int(match.group(2))
    return match.group(0) if code <= 0x10FFFF and not _ILLEGAL.match(chr(code)) else ""


def _refuse_doctype(path: Path, beginning: str) -> None:
    if _PROLOG_THEN_DOCTYPE.match(beginning):
        raise _doctype(path)


def _doctype(path: Path) -> DoctypeError:
    return DoctypeError(
        f"{path}: declares a DOCTYPE, which is refused",
        cause="no test runner writes one; it can define entities that grow without bound",
        remedy=_REMEDY,
    )
