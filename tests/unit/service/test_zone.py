"""The machine's own time zone, by what names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightsweep.service.zone import machine_zone


@pytest.mark.parametrize(
    ("said", "zone"),
    [
        ("Europe/Amsterdam", "Europe/Amsterdam"),
        (":Europe/Amsterdam", "Europe/Amsterdam"),
        ("/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        ("", "UTC"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", None),
        ("../../etc/passwd", None),
    ],
)
def test_the_environment_names_it(said: str, zone: str | None) -> None:
    assert machine_zone({"TZ": said}) == zone


def test_else_the_link_does_else_the_text_and_a_machine_with_neither_runs_on_utc(tmp_path: Path) -> None:
    link, text = tmp_path / "localtime", tmp_path / "timezone"
    assert machine_zone({}, localtime=link, timezone=text) == "UTC"
    link.write_bytes(b"TZif2")  # a copy, as images have it
    assert machine_zone({}, localtime=link, timezone=text) is None
    text.write_text("Europe/Berlin\n")
    assert machine_zone({}, localtime=link, timezone=text) == "Europe/Berlin"
    link.unlink()
    there = tmp_path / "zoneinfo" / "Asia" / "Tokyo"
    there.parent.mkdir(parents=True)
    there.touch()
    link.symlink_to(there)
    assert machine_zone({}, localtime=link, timezone=text) == "Asia/Tokyo"
