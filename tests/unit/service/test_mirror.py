"""The file beside the database, damaged: what it still names comes back, and that more may be owed is never hidden."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nightsweep.production.record import READY_TIMEOUT, from_document, unreadable
from nightsweep.service.mirror import FileMirror, OwedUnreadable, read_noted

WHOLE = json.dumps({"prod": {"owner": "x", "image": "i"}, "other": {"owner": None}}, indent=2)


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ("", {}),
        ("[]", {}),
        ("null", {}),
        ('{"pr', {}),
        ('{"prod"', {"prod": {}}),
        ('{"prod": {"owner": "x", "ima', {"prod": {}}),
        ('{"prod": {"owner": "x"}, "oth', {"prod": {"owner": "x"}}),
        ('{"prod": {"owner": "x"}, "other": {', {"prod": {"owner": "x"}, "other": {}}),
        ('{"prod": {"owner": "x"}} trailing', {"prod": {"owner": "x"}}),
        ("\x00\x00\x00", {}),
        ("[" * 100_000, {}),
    ],
)
def test_of_a_damaged_file_every_name_before_the_damage_is_read(text: str, noted: dict[str, object]) -> None:
    found = read_noted(text)
    assert found.noted == noted
    assert found.damage is not None


def test_cut_anywhere_a_file_never_counts_as_whole() -> None:
    assert read_noted(WHOLE).damage is None
    for end in range(len(WHOLE)):
        found = read_noted(WHOLE[:end])
        assert found.damage is not None
        assert set(found.noted) <= {"prod", "other"}


def test_what_is_damaged_is_not_cleared_away_and_its_remains_are_kept_when_it_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "production.json"
    mirror = FileMirror(path)
    path.write_text('{"prod": {"owner": "x"}, "oth')
    mirror.clear("prod")
    assert list(mirror.read()) == ["prod"]
    with pytest.raises(OwedUnreadable, match=r"production\.json .* it still names prod\. .*`nightsweep restore NAME`"):
        mirror.whole()
    remains = mirror.renew({"prod": {"owner": "x"}, "other": {}})
    assert remains.read_text() == '{"prod": {"owner": "x"}, "oth'
    mirror.whole()
    assert set(mirror.read()) == {"prod", "other"}
    mirror.renew({"prod": {"owner": "old"}, "third": {}})
    assert mirror.read() == {"prod": {"owner": "x"}, "other": {}, "third": {}}, "a sweep wrote it meanwhile"
    path.write_text('{"pr')
    with pytest.raises(OwedUnreadable, match="no name can be read in it"):
        mirror.whole()


def test_a_file_that_cannot_be_read_at_all_owes_what_nobody_knows(tmp_path: Path) -> None:
    (tmp_path / "production.json").mkdir()
    with pytest.raises(OwedUnreadable, match="cannot be read"):
        FileMirror(tmp_path / "production.json").whole()


def test_an_entry_is_read_field_by_field() -> None:
    odd = {
        "ready_timeout": "x",
        "ports": [1],
        "restore_by": "2026-11-30T06:00:00",
        "command": "one",
        "container": 5,
        "image": "i",
        "compose": {"project": 1},
        "paused": "no",
    }
    record = from_document("prod", odd)
    assert (record.name, record.image, record.ready_timeout, record.restore_by) == ("prod", "i", READY_TIMEOUT, None)
    assert set(unreadable(odd)) == set(odd) - {"image"}
    for timeout in (float("nan"), float("inf"), -1, 0):
        assert from_document("prod", {"ready_timeout": timeout}).ready_timeout == READY_TIMEOUT
    holder = {"owner": 5, "box_id": "x", "restore_started_at": "noon", "image": "i"}
    assert read_noted(json.dumps({"prod": holder, "odd": 5})).noted == {"prod": {"image": "i"}, "odd": {}}
