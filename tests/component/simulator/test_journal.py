"""The simulator's own record, and streams that it spoils on request."""

from __future__ import annotations

import time

import httpx
import pytest

from tests.component.simulator.conftest import SHIPPED, started


@pytest.fixture(scope="module")
def noted():
    with started("--sim-speed", "40", "--sim-journal", speculative=SHIPPED) as simulator:
        yield simulator.wait_ready()


def journal(simulator, since, until, slack=0.0):
    query = {"since": since, "until": until, "slack": slack}
    return simulator.client.get("/sim/journal", params=query).json()


def test_the_journals_totals_are_the_counters_and_its_events_the_streams(noted):
    begin = time.monotonic()
    before = noted.metrics()
    events = noted.stream(max_tokens=60)
    end = time.monotonic()
    after = noted.metrics()
    told = journal(noted, begin, end)
    tokens = told["until"][0] - (told["since"] or [0])[0]
    assert tokens == after["vllm:generation_tokens_total"] - before.get("vllm:generation_tokens_total", 0.0)
    (request,) = told["requests"]
    chunks = [event for event in events if event["choices"] and event["choices"][0]["delta"].get("content")]
    assert request["tokens"][-1] == 60 == tokens
    assert len(request["times"]) >= len(chunks) > 5
    assert begin < request["arrived"] < request["times"][0] < request["ended"] < end
    assert told["until"][4] - (told["since"] or [0] * 5)[4] >= len(request["times"])


def test_totals_near_an_edge_hold_from_the_moments_told(noted):
    noted.stream(max_tokens=60)
    now = time.monotonic()
    rows = journal(noted, now - 0.05, now, slack=0.05)["opening"]
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)


def test_without_the_flag_there_is_no_journal(served):
    assert served.client.get("/sim/journal", params={"since": 0, "until": 1}).status_code == 404


def test_a_journal_is_asked_with_two_moments(noted):
    assert noted.client.get("/sim/journal").status_code == 400


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("stream_error:1", "EngineCore encountered an issue"),
        ("empty_stream:1", "data: [DONE]"),
        ("garbage:1", "502 Bad Gateway"),
    ],
)
def test_a_spoiled_stream_says_what_was_asked_for(noted, fault, words):
    noted.fault(fault)
    try:
        text = noted.chat(stream=True, max_tokens=400).text
    finally:
        noted.client.post("/sim/fault", json={"clear": fault.partition(":")[0]})
    assert words in text
    assert ('finish_reason":"stop' in text) is False
    noted.stream(max_tokens=5)  # and the next one is whole


def test_a_cut_stream_ends_in_the_middle_and_is_dropped_by_the_engine(noted):
    noted.fault("cut_stream:1")
    try:
        with pytest.raises(httpx.TransportError):
            noted.chat(stream=True, max_tokens=400, ignore_eos=True)
    finally:
        noted.client.post("/sim/fault", json={"clear": "cut_stream"})
    deadline = time.monotonic() + 5
    while noted.metrics()["vllm:num_requests_running"] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert noted.metrics()["vllm:num_requests_running"] == 0


def test_refused_requests_and_a_page_that_is_down_are_told_by_status(noted):
    for fault in ("refuse:1", "metrics_down"):
        noted.fault(fault)
    try:
        assert noted.chat().status_code == 503
        assert noted.client.get("/metrics").status_code == 500
    finally:
        for name in ("refuse", "metrics_down"):
            noted.client.post("/sim/fault", json={"clear": name})
    assert noted.chat().status_code == 200


def test_held_requests_wait_until_the_hold_is_lifted(noted):
    noted.fault("hold:1")
    try:
        assert noted.truth()["faults"] == ["hold"]
    finally:
        noted.client.post("/sim/fault", json={"clear": "hold"})
    assert noted.truth()["faults"] == []


def test_a_foreign_burst_ends_by_itself(noted):
    noted.fault("foreign_burst:0,500,0.2")
    time.sleep(0.5)
    first = noted.metrics()["vllm:generation_tokens_total"]
    time.sleep(0.2)
    assert noted.metrics()["vllm:generation_tokens_total"] == first
