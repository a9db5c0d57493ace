"""What an engine's own page tells of all that it has served, by release; what it does not tell stays unknown, with why."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from nightsweep.engine.dialects import Sample, select, sglang_dialect, vllm_dialect, with_served
from nightsweep.engine.values import Dialect
from nightsweep.measurement.traffic import ENOUGH, Traffic, document, from_document, traffic_of
from tests.unit.engine.data import page, samples

VLLM, SGLANG = with_served(vllm_dialect("0.32.0")), with_served(sglang_dialect("0.5.23"))
STARTED = datetime(2026, 11, 29, 16, 22, 47, 880000, tzinfo=UTC)  # of the recorded page with 100 requests
READ = STARTED + timedelta(hours=10)


def traffic(
    rows: Iterable[Sample], dialect: Dialect = VLLM, *, read: datetime = READ, container: datetime | None = None
) -> Traffic:
    values = select(rows, dialect)
    return traffic_of(values, engine=dialect.engine, version=dialect.version, read=read, container_started=container)


def recorded(name: str, dialect: Dialect = VLLM) -> Traffic:
    return traffic(page(name), dialect)


def some_traffic(**facts: object) -> Traffic:
    known = Traffic(
        read=READ,
        engine="vllm",
        version="0.32.0",
        since=STARTED,
        since_by="process",
        requests=100,
        prompt_tokens=120_000.0,
        generation_tokens=30_000.0,
        request_seconds=3_600.0,
        generated_tokens=30_000.0,
    )
    return replace(known, **facts)  # type: ignore[arg-type]


def test_a_recorded_page_of_vllm_tells_requests_means_streams_and_their_period() -> None:
    found = recorded("vllm-0.32.0-cpu-none-t0-after.txt")
    assert (found.requests, found.prompt_tokens, found.generation_tokens) == (100, 2373.0, 19200.0)
    assert (found.mean_prompt_tokens, found.mean_generation_tokens) == (23.73, 192.0)
    assert found.since is not None
    assert (found.since.replace(microsecond=0), found.since_by) == (STARTED.replace(microsecond=0), "process")
    assert found.streams == pytest.approx(114.00785613 / 36_000.0, rel=1e-6)
    assert found.unknown is None


@pytest.mark.parametrize("version", ["0.6.6", "0.8.5", "0.26.0", None])
def test_the_names_are_the_same_for_every_release_with_and_without_an_engine_label(version: str | None) -> None:
    dialect = with_served(vllm_dialect(version))
    of_today = page("vllm-0.32.0-cpu-P-synth-t1-after.txt")
    older = [
        (name, {key: told for key, told in labels.items() if key != "engine"}, value)
        for name, labels, value in of_today
    ]
    for rows in (of_today, older):
        found = traffic(rows, dialect)
        assert (found.requests, found.mean_prompt_tokens) == (109, 2569 / 109)
        assert found.mean_generation_tokens == 192.0


@pytest.mark.parametrize(
    ("name", "requests", "said"),
    [
        ("vllm-0.26.0-cuda-eagle5pb-boot.txt", 0, "0 requests"),
        ("vllm-0.26.0-cuda-eagle5pb-after.txt", 1, "1 request since"),
        ("vllm-0.26.0-cuda-none_warm-after.txt", 3, "3 requests"),
        ("vllm-0.32.0-cpu-P-synth-t1-before.txt", 0, "0 requests"),
    ],
)
def test_a_page_of_few_requests_says_too_little_and_how_many_there_were(name: str, requests: int, said: str) -> None:
    found = recorded(name)
    assert found.requests == requests
    assert found.mean_prompt_tokens is found.mean_generation_tokens is found.streams is None
    assert said in str(found.unknown)
    assert f"fewer than {ENOUGH}" in str(found.unknown)


def test_a_mean_is_of_enough_requests_and_no_fewer() -> None:
    assert some_traffic(requests=ENOUGH).unknown is None
    assert some_traffic(requests=ENOUGH - 1).unknown is not None


def test_requests_that_their_clients_gave_up_take_the_streams_and_not_the_lengths() -> None:
    assert some_traffic().streams == pytest.approx(0.1)
    assert some_traffic(generated_tokens=30_500.0).streams == pytest.approx(0.1)
    many = some_traffic(generated_tokens=31_000.0)
    assert (many.streams, many.mean_prompt_tokens, many.mean_generation_tokens) == (None, 1200.0, 300.0)
    assert recorded("vllm-0.26.0-cuda-eagle5pb-after.txt").generated_tokens == 148073.0


@pytest.mark.parametrize("absent", ["since", "request_seconds", "generated_tokens"])
def test_streams_are_absent_where_they_would_be_guessed(absent: str) -> None:
    found = some_traffic(**{absent: None})
    assert found.streams is None
    assert found.mean_prompt_tokens == 1200.0


def test_engines_of_one_box_are_added_up() -> None:
    rows = page("vllm-0.32.0-cpu-none-t0-after.txt")
    second = [(name, {**labels, "engine": "1"}, value) for name, labels, value in rows if name.startswith("vllm:")]
    found = traffic([*rows, *second])
    assert (found.requests, found.mean_prompt_tokens) == (200, 23.73)


# Composed after SGLang 0.5.9 and 0.5.23, `srt/metrics/collector.py`: what its page calls the same things.
SGLANG_PAGE = """\
sglang:num_requests_total{model_name="m"} 40.0
sglang:prompt_tokens_total{model_name="m"} 48000.0
sglang:generation_tokens_total{model_name="m"} 12000.0
sglang:e2e_request_latency_seconds_sum{model_name="m"} 720.0
sglang:e2e_request_latency_seconds_count{model_name="m"} 40.0
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 0.0
"""
REALTIME = (
    'sglang:realtime_tokens_total{engine_type="unified",mode="decode",model_name="m",pp_rank="0",tp_rank="0"} 11960.0\n'
)


def test_sglang_has_its_own_names_and_docker_tells_its_start() -> None:
    begun = READ - timedelta(hours=2)
    found = traffic(samples(SGLANG_PAGE + REALTIME), SGLANG, container=begun)
    assert (found.requests, found.mean_prompt_tokens, found.mean_generation_tokens) == (40, 1200.0, 300.0)
    assert (found.since, found.since_by, found.streams) == (begun, "container", pytest.approx(0.1))


def test_an_sglang_that_counts_no_tokens_as_they_come_cannot_tell_what_was_given_up() -> None:
    old = with_served(sglang_dialect("0.4.3"))
    found = traffic(samples(SGLANG_PAGE), old, container=READ - timedelta(hours=2))
    assert (found.mean_generation_tokens, found.streams) == (300.0, None)


@pytest.mark.parametrize("rows", ["", "process_start_time_seconds 1.79596936788e+09\n", SGLANG_PAGE])
def test_a_page_without_these_counters_is_unknown_and_never_nothing(rows: str) -> None:
    found = traffic(samples(rows))
    assert found.unknown == "its metrics page does not count the tokens of finished requests"
    assert found.requests is None


@pytest.mark.parametrize("start", [0.0, 1e300, -1e300, 4e9])
def test_a_start_that_cannot_be_is_dockers_or_unknown(start: float) -> None:
    values = {"process_start": start, "served_requests": 40.0}
    for container in (STARTED, None, READ + timedelta(seconds=5)):
        found = traffic_of(values, engine="vllm", version="1", read=READ, container_started=container)
        known = container == STARTED
        assert (found.since, found.since_by) == ((STARTED, "container") if known else (None, None))


def test_it_is_kept_as_json_and_read_back_as_it_was_also_by_an_older_program() -> None:
    for one in (some_traffic(), recorded("vllm-0.26.0-cuda-eagle5pb-boot.txt"), Traffic(READ, problem="it was paused")):
        kept = json.loads(json.dumps(document(one)))
        assert from_document({**kept, "of_a_newer_version": 1}) == one
    assert set(document(Traffic(READ, problem="it was paused"))) == {"read", "problem"}
