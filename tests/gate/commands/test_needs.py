from __future__ import annotations

import pytest

from ci import cli


@pytest.mark.parametrize(
    ("needs", "code"),
    [('{"a":{"result":"success"}}', 0), ('{"a":{"result":"skipped"}}', 2), ("{}", 2), (None, 2)],
)
def test_the_last_job_is_green_only_if_all_are(
    needs: str | None, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Anything but success everywhere is no verdict, and the last line says it."""
    monkeypatch.delenv("NEEDS", raising=False)
    if needs is not None:
        monkeypatch.setenv("NEEDS", needs)
    assert cli.main(["needs"]) == code
    shown = capsys.readouterr()
    assert f"(exit {code})" in (shown.out + shown.err).splitlines()[-1]
