"""Settings: a slip of the keys is an error for what measures, and holds nobody up who brings production back."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightsweep import wiring
from nightsweep.analysis.notices import KINDS
from nightsweep.settings import InvalidSetting, from_environment

SLIPS = {
    "NIGHTSWEEP_NOTIFY": "rubbish",
    "NIGHTSWEEP_NOTIFY_ON": "donee",
    "NIGHTSWEEP_PREFECT_PORT": "abc",
    "NIGHTSWEEP_DATABASE_URL": "rubbish",
}


@pytest.mark.parametrize("variable", SLIPS)
def test_a_slip_stops_what_measures_and_is_one_line_for_what_rescues(variable: str) -> None:
    environ = {"NIGHTSWEEP_HOME": "/somewhere", variable: SLIPS[variable]}
    with pytest.raises(InvalidSetting, match=variable):
        from_environment(environ)
    warned: list[str] = []
    chosen = wiring.settings_for_rescue(warned.append, environ)
    assert len(warned) == 1
    assert variable in warned[0]
    assert "\n" not in warned[0]
    assert (chosen.home, chosen.notify, chosen.notify_on, chosen.prefect_port) == (Path("/somewhere"), (), KINDS, 4270)
    assert chosen.database_away == (variable == "NIGHTSWEEP_DATABASE_URL"), "another database is never asked instead"


def test_all_slips_at_once_are_a_line_each_and_settings_that_can_be_used_warn_of_nothing() -> None:
    warned: list[str] = []
    wiring.settings_for_rescue(warned.append, SLIPS)
    assert [next(name for name in sorted(SLIPS, reverse=True) if name in line) for line in warned] == [
        "NIGHTSWEEP_DATABASE_URL",
        "NIGHTSWEEP_PREFECT_PORT",
        "NIGHTSWEEP_NOTIFY",
        "NIGHTSWEEP_NOTIFY_ON",
    ]
    warned.clear()
    good = {"NIGHTSWEEP_DATABASE_URL": "postgresql://u@h/n", "NIGHTSWEEP_PREFECT_PORT": "4000"}
    assert wiring.settings_for_rescue(warned.append, good) == from_environment(good)
    assert warned == []


def test_a_port_in_other_digits_and_a_home_of_nobody_are_told_as_every_slip_is() -> None:
    with pytest.raises(InvalidSetting, match="from 1 to 65535"):
        from_environment({"NIGHTSWEEP_PREFECT_PORT": "²"})
    with pytest.raises(InvalidSetting, match="NIGHTSWEEP_HOME"):
        from_environment({"NIGHTSWEEP_HOME": "~no-such-user-anywhere/home"})
