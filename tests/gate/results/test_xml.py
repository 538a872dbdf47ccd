"""XML is read without DOCTYPE, mended where that is safe, and cut where it stops making sense."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from ci.results import xml

PATH = Path("report.xml")


class Tags:
    """A sink that keeps the tags of closed elements and their text."""

    def __init__(self) -> None:
        self.closed: list[tuple[str, str]] = []

    def start(self, tag: str, element: etree._Element) -> None:
        """Take no note of opened elements."""

    def end(self, tag: str, element: etree._Element) -> None:
        """Keep tag and text."""
        self.closed.append((tag, element.text or ""))


def _parse(data: bytes) -> xml.Parsed[Tags]:
    return xml.parse_xml(PATH, data, Tags)


def test_clean_document_is_not_marked() -> None:
    """A clean document has neither repairs nor a problem, and namespaces are dropped."""
    parsed = _parse(b'<?xml version="1.0"?><a xmlns="urn:x"><y:b xmlns:y="urn:y">t</y:b></a>')
    assert parsed.sink.closed == [("b", "t"), ("a", "")]
    assert (parsed.repairs, parsed.problem) == ((), None)


@pytest.mark.parametrize("data", [b"", b" \n", b"\0\0\0"])
def test_empty(data: bytes) -> None:
    """Nothing at all has its own error."""
    with pytest.raises(xml.XmlEmptyError):
        _parse(data)


@pytest.mark.parametrize("data", [b"hello", b"\xff\xfe\xff", b"{}", b"<", b"<a b"])
def test_no_document(data: bytes) -> None:
    """A file without a root element is no XML."""
    with pytest.raises(xml.NotXmlError):
        _parse(data)


DOCTYPES = {
    "entities": '<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;">]><a>&d;</a>',
    "external": '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
    "behind-comment": "<!-- x --><?p q?>\n<!DOCTYPE a><a/>",
    "far-behind": "<?xml version='1.0'?><!--" + "x" * 200_000 + "--><!DOCTYPE a><a/>",
}


@pytest.mark.parametrize("name", DOCTYPES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_doctype_is_refused(name: str, encoding: str) -> None:
    """A DOCTYPE is refused wherever it stands and in whatever encoding it hides."""
    with pytest.raises((xml.DoctypeError, xml.NotXmlError)) as caught:
        _parse(DOCTYPES[name].encode(encoding))
    if encoding.startswith("utf-8"):
        assert isinstance(caught.value, xml.DoctypeError)


def test_doctype_as_text_is_no_doctype() -> None:
    """A test may print the word."""
    assert _parse(b"<a><![CDATA[<!DOCTYPE x>]]></a>").sink.closed == [("a", "<!DOCTYPE x>")]


@pytest.mark.parametrize("second", [b"<b/>", b"<?xml version='1.0'?><b/>", b"text"])
def test_second_document_is_refused(second: bytes) -> None:
    """Whatever follows the root might hold the failure, so the file is not used."""
    with pytest.raises(xml.ConcatenatedXmlError):
        _parse(b"<a/>\n" + second)


def test_second_document_behind_a_repair_is_refused() -> None:
    """Mending does not make two documents one."""
    with pytest.raises(xml.ConcatenatedXmlError):
        _parse(b"<a>\x1b</a><b/>")


def test_cut_document_keeps_whole_elements() -> None:
    """What was closed before the cut is handed on, and the cut is named."""
    parsed = _parse(b"<a><b>1</b><b>2</b><b>3")
    assert parsed.sink.closed == [("b", "1"), ("b", "2")]
    assert parsed.problem is not None
    assert parsed.repairs == ()


def test_mismatched_tags_stop_the_reading() -> None:
    """Elements behind a syntax error are not guessed."""
    parsed = _parse(b"<a><b>1</b><c></d><b>2</b></a>")
    assert parsed.sink.closed == [("b", "1")]
    assert parsed.problem is not None


MENDED = {
    "control": (b"<a>x\x1b[31m\0y\x12</a>", "x[31my"),
    "reference": (b"<a>x&#x1b;&#0;&#65;y</a>", "xAy"),
    "noncharacter": ("<a>x\uffffy</a>".encode(), "xy"),
    "blank-first": ('\n<?xml version="1.0" encoding="utf-8"?><a>\xfc</a>'.encode(), "\xfc"),
    "says-utf-16": ('<?xml version="1.0" encoding="utf-16"?><a>\xfc</a>'.encode(), "\xfc"),
    "says-nonsense": ('<?xml version="1.0" encoding="x-none"?><a>\xfc</a>'.encode(), "\xfc"),
    "is-cp1252": ('<?xml version="1.0" encoding="utf-8"?><a>\xfc</a>'.encode("cp1252"), "\ufffd"),
    "latin-1-and-control": (
        '<?xml version="1.0" encoding="iso-8859-1"?><a>\xfc\x01</a>'.encode("latin-1"),
        "\xfc",
    ),
    "utf-16-and-control": ("<a>\xfc\x01</a>".encode("utf-16"), "\xfc"),
}


@pytest.mark.parametrize("name", MENDED)
def test_mended_document_is_marked(name: str) -> None:
    """Bytes that no parser takes are mended, the text survives, and the repair is named."""
    data, text = MENDED[name]
    parsed = _parse(data)
    assert parsed.sink.closed == [("a", text)]
    assert parsed.problem is None
    assert len(parsed.repairs) >= 1


CLEAN_ENCODINGS = {
    "latin-1": '<?xml version="1.0" encoding="iso-8859-1"?><a>\xfc</a>'.encode("latin-1"),
    "utf-16": '<?xml version="1.0" encoding="utf-16"?><a>\xfc</a>'.encode("utf-16"),
    "bom": '\ufeff<?xml version="1.0" encoding="utf-8"?><a>\xfc</a>'.encode(),
}


@pytest.mark.parametrize("name", CLEAN_ENCODINGS)
def test_true_encodings_need_no_repair(name: str) -> None:
    """A declared encoding that fits is read as it is."""
    parsed = _parse(CLEAN_ENCODINGS[name])
    assert parsed.sink.closed == [("a", "\xfc")]
    assert parsed.repairs == ()
