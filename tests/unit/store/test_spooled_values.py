"""What is spooled comes back as it was: the hash over it must be the same."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from nightsweep.engine.values import Applied, KvBudget, LogLine
from nightsweep.measurement.boxstate import BoxSample, DeviceSample
from nightsweep.ports import Secret
from nightsweep.store.spooled_values import KNOWN, read_back, written
from tests.storekit.builders import a_handle, a_prefill, a_ready, a_window, failed, some_conditions, stopped


def back(value: Any) -> Any:
    return read_back(json.loads(json.dumps(written(value))))


@pytest.mark.parametrize(
    "value",
    [
        a_window(31.7, concurrency=4, flags=("underfilled",)),
        a_prefill(None, flags=("request_failed",)),
        a_ready(),
        failed(),
        stopped(),
        a_handle(),
        (LogLine(text="\ud800 half a pair, \x00", seconds=0.1, stream="stderr"),),
        BoxSample(at=1.0, devices=(DeviceSample(index=0, sm_clock=1.5e9),), containers={"ab": 0.1 + 0.2}),  # type: ignore[arg-type]
        Applied(not_applied=("block",)),
        some_conditions(nested={"a": [1, (2, None)], "b": True}),
        {1: 0.1, 2: math.inf},
        b"\x00\xff",
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_written_is_read_back_exactly(value: Any) -> None:
    found = back(value)
    assert found == value
    assert type(found) is type(value)


def test_a_number_that_json_has_not_is_read_back() -> None:
    assert math.isnan(back(math.nan))


def test_a_secret_is_never_written() -> None:
    said = json.dumps(written({"key": Secret("hf_abc"), "in": [Secret("hf_def")], Secret("hf_ghi"): (Secret("hf_j"),)}))
    assert "hf_" not in said
    assert back({"key": Secret("hf_abc")}) == {"key": "***"}


def test_only_our_own_values_come_back() -> None:
    for name in ("Popen", "Path", "SweepError", "Settings"):
        assert name not in KNOWN
        with pytest.raises(ValueError, match="no value of ours"):
            read_back({"~": name, "v": {}})
    assert KvBudget.__name__ in KNOWN


def test_a_field_of_another_version_is_an_error_and_not_dropped() -> None:
    document = written(a_handle())
    document["v"]["from_tomorrow"] = 1
    with pytest.raises(TypeError):
        read_back(document)
