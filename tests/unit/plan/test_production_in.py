"""What a sweep file says of production."""

from __future__ import annotations

import pytest

from nightsweep.errors import InvalidPlan
from nightsweep.plan.model import Production
from nightsweep.plan.sweepfile import load
from nightsweep.units import Seconds
from tests.unit.plan.builders import a_file


def production(text: str) -> Production | None:
    return load(f"production: {text}\n" + a_file()).production


def test_idle_is_asked_for_a_minute_by_default_and_that_is_told_from_a_minute_that_was_written() -> None:
    assert production("{container: p}") == Production("p", idle_for=None, idle_limit=Seconds(1800.0))
    assert production("{container: p, idle_for: 60s, idle_limit: 1h}") == Production(
        "p", idle_for=Seconds(60.0), idle_limit=Seconds(3600.0)
    )
    assert production("{container: p, idle_for: 0}") == Production("p", idle_for=Seconds(0.0))


def test_production_settings_are_no_part_of_what_is_measured() -> None:
    plain = load("production: {container: p}\n" + a_file())
    asked = load("production: {container: p, idle_for: 5m, url: http://h}\n" + a_file())
    assert plain.fingerprint == asked.fingerprint


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("{container: p, idle_for: soon}", "production.idle_for"),
        ("{container: p, idle_for: 20m, idle_limit: 10m}", "production.idle_limit"),
        ("{container: p, idle_limit: 30s}", "production.idle_limit"),
    ],
)
def test_a_time_that_cannot_be_met_is_a_mistake(text: str, key: str) -> None:
    with pytest.raises(InvalidPlan) as refused:
        production(text)
    (problem,) = refused.value.facts["problems"]
    assert f": {key}: found " in problem
