"""Messages through Apprise to a real HTTP server, and a real night that tells of itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from nightsweep import wiring
from nightsweep.analysis.telling import not_restored, trial_notice
from nightsweep.errors import DockerUnavailable
from nightsweep.ports import Secret
from nightsweep.rescue import restore_production
from nightsweep.service.notify import Notifier, sender
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from nightsweep.tell import teller
from nightsweep.units import Seconds
from tests.component.service.receiver import Receiver, receiver
from tests.component.sweep.kit import PLAIN, Bench, a_file

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Apprise's own imports


@pytest.fixture
def post() -> Iterator[Receiver]:
    with receiver() as here:
        yield here


@pytest.fixture
def bench(tmp_path: Path, database_url: str, queries: Queries) -> Bench:
    return Bench(home=tmp_path, database_url=database_url, queries=queries)


def to(*addresses: str, **more: object) -> Notifier:
    return Notifier(tuple(map(Secret, addresses)), send=sender(environ={}), **more)  # type: ignore[arg-type]


def test_a_message_arrives_whole_and_a_failure_is_told_as_one(post: Receiver) -> None:
    notice = not_restored("vllm-qwen", box="spark", reason="it ended again")
    assert to(post.url(), post.url("second")).tell(notice) == ()
    assert len(post.heard) == 2
    assert {heard["title"] for heard in post.heard} == {"PRODUCTION IS NOT SERVING: vllm-qwen on spark"}
    assert {heard["type"] for heard in post.heard} == {"failure"}
    assert "Next: look at `docker logs vllm-qwen`" in post.heard[0]["message"]


def test_a_service_that_refuses_or_does_not_exist_is_a_line_without_the_address(post: Receiver) -> None:
    post.status = 503
    unknown = "nosuch://t0k3n-in-host/p4th"
    failures = to(post.url(), "json://127.0.0.1:9/s3cr3t-path", unknown).tell(trial_notice("spark"))
    assert len(failures) == 3
    assert failures[0].startswith("json://*** (address 1 of NIGHTSWEEP_NOTIFY): ")
    assert "503" in failures[0]
    assert "does not know such an address" in failures[2]
    assert not any(secret in line for line in failures for secret in ("s3cr3t-path", "t0k3n-in-host", "p4th"))


def test_what_another_thread_hears_is_no_reason_of_ours_and_nothing_is_printed(
    post: Receiver, capfd: pytest.CaptureFixture[str]
) -> None:
    post.status = 503
    unknown = [f"nosuch://t0k3n-{place}/p4th" for place in range(5)]
    for _ in range(5):
        failures = to(post.url(), *unknown, post.url("s3cr3t")).tell(trial_notice("spark"))
        assert ["503" in line for line in failures] == [True, *(False for _ in unknown), True]
        assert not any(secret in line for line in failures for secret in ("p4th", "s3cr3t", "t0k3n", "t...0"))
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_a_service_that_hangs_costs_a_bounded_time_and_keeps_nobody_else_waiting(post: Receiver) -> None:
    began = time.monotonic()
    failures = to(post.url("hang"), post.url(), patience=Seconds(1.0)).tell(trial_notice("spark"))
    assert time.monotonic() - began < 2.5
    assert [line.split(": ", 1)[1] for line in failures] == ["did not answer within 1 s"]
    assert len(post.heard) == 2


def test_a_plugin_that_raises_is_a_line_too() -> None:
    def broken(address: Secret, notice: object) -> str | None:
        raise RuntimeError(f"cannot reach {address}")

    (line,) = Notifier((Secret("json://h0stname/x"),), send=broken).tell(trial_notice("spark"))
    assert "RuntimeError" in line
    assert "h0stname" not in line


def test_only_what_was_chosen_is_told_and_a_trial_always_is(post: Receiver) -> None:
    chosen = to(post.url(), kinds=("failed",))
    assert chosen.tell(not_restored("x", box="b", reason="r")) == ()
    assert post.heard == []
    assert chosen.tell(trial_notice("b")) == ()
    assert len(post.heard) == 1


def test_a_night_tells_of_itself_once_it_is_over_and_writes_its_summary(
    bench: Bench, post: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = {"name": "bad", "args": {"sim-fault": "bad_flag"}}
    text = a_file(bad, PLAIN, concurrency=[1])
    with bench.command("run", str(bench.file(text))) as quiet:
        assert quiet.end(seconds=60) == 1, quiet.said
    assert "done, 1 of 2 windows" in quiet.said
    assert "1 of 2 configs FAILED" in quiet.said
    (page,) = (bench.home / "summaries").glob("*-night-1.html")
    assert "1 of 2 planned repeats have a clean window" in page.with_suffix(".md").read_text()
    assert "bad_flag" in page.read_text()
    assert "WARNING boot_failed sweep=1: bad: " in quiet.said, "an event is a log line, too"

    monkeypatch.setenv("NIGHTSWEEP_NOTIFY", f"{post.url()}, {post.url('hang')}")
    for name, value in bench.environ.items():
        monkeypatch.setenv(name, value)
    chosen = wiring.settings()
    assert "s3cr3t" not in repr(chosen)
    people = teller(chosen)
    object.__setattr__(people.notifier, "patience", Seconds(2.5))  # less than what Apprise itself waits
    with pytest.raises(DockerUnavailable), people.night("night", by_hand=False):
        raise DockerUnavailable(reason="the disk is gone")
    first = post.heard[0]
    assert first["title"].startswith("night: failed, 1 of 2 windows")
    assert "SIMULATED" in first["title"]
    assert "the disk is gone" in first["message"]
    assert f"Summary: {page}" in first["message"]
    failed = bench.events("notification_failed")
    assert len(failed) == 1
    assert "s3cr3t" not in failed[0].message
    assert "did not answer" in failed[0].message


def test_production_that_does_not_serve_is_told_again_but_not_every_minute(bench: Bench, post: Receiver) -> None:
    now = [wiring.SystemClock().now()]
    people = teller(bench.settings)
    object.__setattr__(people, "notifier", to(post.url()))
    object.__setattr__(people, "now", lambda: now[0])
    for minutes in (0, 5, 5, 10):
        now[0] += timedelta(minutes=minutes)
        people.production("vllm-qwen", serving=False, detail="no answer")
    assert [heard["type"] for heard in post.heard] == ["failure", "failure"]
    for _ in range(2):
        people.production("vllm-qwen", serving=True, detail="answers on port 8000")
    assert [heard["type"] for heard in post.heard[2:]] == ["success"]


def test_restore_tells_people_when_production_does_not_serve(
    bench: Bench, post: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")  # nobody is there
    chosen = replace(bench.settings, notify=(post.url(),))
    wiring.production_mirror(chosen).write("vllm-qwen", {"ready_timeout": 0.2})
    for _ in range(2):
        (result,) = restore_production(chosen, ("vllm-qwen",))
        assert not result.serving
    (heard,) = post.heard
    assert heard["title"] == "PRODUCTION IS NOT SERVING: vllm-qwen on bench"
    assert "nightsweep restore" in heard["message"]


@pytest.mark.parametrize(
    ("level", "number"), [("info", logging.INFO), ("warning", logging.WARNING), ("error", logging.ERROR)]
)
def test_every_event_is_a_log_line_of_its_level_with_its_fields(
    store: PostgresStore, caplog: pytest.LogCaptureFixture, level: str, number: int
) -> None:
    with caplog.at_level(logging.INFO, logger="nightsweep.events"):
        store.event("boot_failed", "mtp: out of memory\x00", level=level, data={"port": 8000})
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (number, "boot_failed: mtp: out of memory\ufffd")
    assert record.event == {"kind": "boot_failed", "sweep_id": None, "boot_id": None, "data": {"port": 8000}}  # type: ignore[attr-defined]
