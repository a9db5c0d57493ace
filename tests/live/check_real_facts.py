#!/usr/bin/env python3
"""Check the stored facts of a sweep on real vLLM against the engine's own log lines and metrics pages.

Independent by construction: own SQL, own reading of the log and of the Prometheus text; nothing of the product is imported.

    check_real_facts.py postgresql://... [--sweep NAME]

Prints one line for each check and ends with exit code 1 when any failed.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import psycopg
from psycopg.rows import dict_row

SYNTHETIC = (0.75, 0.52, 0.36, 0.28)
Row = dict[str, Any]


# --- reading what was stored -------------------------------------------------------------------------------------


def unpacked(codec: str, data: bytes) -> bytes:
    """Bytes as they were before they were stored."""
    if codec in ("zlib", "json+zlib"):
        return zlib.decompress(data)
    raise SystemExit(f"a codec this script does not know: {codec!r}")


@dataclass(frozen=True)
class Page:
    """One metrics page: values by (series name, labels)."""

    values: Mapping[tuple[str, frozenset[tuple[str, str]]], float]

    def total(self, name: str, **labels: str) -> float:
        """The sum over all series of this name that carry these labels; an absent series is an error."""
        wanted = set(labels.items())
        found = [value for (series, has), value in self.values.items() if series == name and wanted <= set(has)]
        if not found:
            raise LookupError(f"no series {name} {labels or ''}")
        return sum(found)

    def positions(self) -> dict[int, float]:
        """Accepted tokens by position."""
        out: dict[int, float] = {}
        for (series, labels), value in self.values.items():
            if series == "vllm:spec_decode_num_accepted_tokens_per_pos_total":
                position = int(dict(labels)["position"])
                out[position] = out.get(position, 0.0) + value
        return out

    def labels_of(self, name: str) -> dict[str, str]:
        """The labels of the only series of this name."""
        found = [dict(labels) for (series, labels) in self.values if series == name]
        if len(found) != 1:
            raise LookupError(f"{len(found)} series {name}")
        return found[0]


SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def page_of(raw: bytes) -> Page:
    """Read a page of the Prometheus text format."""
    values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for line in raw.decode().splitlines():
        if line and not line.startswith("#"):
            match = SAMPLE.match(line)
            if match is None:
                raise SystemExit(f"a line this script cannot read: {line[:120]!r}")
            name, labels, value = match.groups()
            values[name, frozenset(LABEL.findall(labels or ""))] = float(value)
    return Page(values)


@dataclass
class Boot:
    """A boot with its log as text."""

    row: Row
    log: str
    windows: list[Window] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.row["config_name"])

    @property
    def speculative(self) -> Mapping[str, Any]:
        return dict(self.row["config_doc"].get("speculative") or {})


@dataclass(frozen=True)
class Window:
    """A window with its two pages and its requests."""

    row: Row
    before: Page
    after: Page
    seconds: float
    edges: tuple[float, float]
    requests: list[dict[str, Any]]

    @property
    def what(self) -> str:
        return f"c={self.row['concurrency']} T={self.row['temperature']} #{self.row['repeat']}"

    def delta(self, name: str, **labels: str) -> float:
        """How much a counter grew."""
        return self.after.total(name, **labels) - self.before.total(name, **labels)


BOOTS = """
select b.*, c.doc as config_doc, sc.name as config_name, i.digest as image_digest, x.simulated as box_simulated
from boots b
join configs c on c.id = b.config_id
join sweep_configs sc on sc.sweep_id = b.sweep_id and sc.config_id = b.config_id
join boxes x on x.id = b.box_id
left join images i on i.id = b.image_id
where b.sweep_id = %s order by b.id
"""
LOGS = "select codec, data from boot_logs where boot_id = %s order by seq"
WINDOWS = """
select w.*, l.concurrency, l.temperature, q.codec as requests_codec, q.data as requests_data
from windows w join cells l on l.id = w.cell_id left join request_timings q on q.window_id = w.id
where w.boot_id = %s order by w.id
"""
READINGS = "select * from readings where window_id = %s"
PREFILLS = "select * from prefills where boot_id = %s order by id"


def boots_of(connection: psycopg.Connection[Row], sweep_id: int) -> Iterator[Boot]:
    """All boots of a sweep with their windows."""
    for row in connection.execute(BOOTS, (sweep_id,)).fetchall():
        chunks = connection.execute(LOGS, (row["id"],)).fetchall()
        log = "\n".join(text for chunk in chunks for text in log_lines(chunk))
        boot = Boot(row=row, log=log)
        for window in connection.execute(WINDOWS, (row["id"],)).fetchall():
            sides = {side["side"]: side for side in connection.execute(READINGS, (window["id"],)).fetchall()}
            if set(sides) == {"before", "after"}:
                boot.windows.append(_window(window, sides))
        yield boot


def log_lines(chunk: Row) -> list[str]:
    """The lines of one stored chunk."""
    return [str(text) for text, _seconds, _stream in json.loads(unpacked(chunk["codec"], chunk["data"]))]


def _window(row: Row, sides: Mapping[str, Row]) -> Window:
    pages = {name: page_of(unpacked(side["codec"], side["raw"])) for name, side in sides.items()}
    edges = (sides["before"]["at_monotonic_s"], sides["after"]["at_monotonic_s"])
    requests = json.loads(unpacked(row["requests_codec"], row["requests_data"]))["requests"]
    return Window(
        row=row,
        before=pages["before"],
        after=pages["after"],
        seconds=edges[1] - edges[0],
        edges=edges,
        requests=requests,
    )


# --- checking ----------------------------------------------------------------------------------------------------


class Checks:
    """Counts and prints checks."""

    def __init__(self) -> None:
        self.failed = 0
        self.passed = 0

    def say(self, ok: bool, what: str, detail: str = "") -> None:
        """One check."""
        self.passed += ok
        self.failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {what}{': ' + detail if detail else ''}")

    def equal(self, what: str, stored: Any, found: Any, *, tolerance: float = 0.0) -> None:
        """Stored equals found; for numbers within a relative tolerance. Absent equals absent only."""
        if stored is None or found is None or isinstance(stored, str):
            ok = stored == found
        else:
            ok = math.isclose(float(stored), float(found), rel_tol=tolerance, abs_tol=1e-9)
        self.say(ok, what, f"stored {stored}, found {found}")


def first(pattern: str, text: str) -> str | None:
    """The first match's group, or None."""
    match = re.search(pattern, text)
    return match.group(1) if match else None


def number(text: str | None) -> float | None:
    """A number that may have commas in it."""
    return None if text is None else float(text.replace(",", ""))


def check_boot(checks: Checks, boot: Boot) -> None:
    """The facts of a boot against its log, and against what the engine's own metrics page says of its cache."""
    row, name = boot.row, boot.name
    checks.say(row["state"] == "stopped", f"{name}: the boot came up and was stopped by us", f"state {row['state']}")
    weights = [number(value) for value in re.findall(r"Model loading took ([\d.]+) GiB", boot.log)]
    checks.equal(f"{name}: weights GiB by the log", row["weights_gib"], weights[-1] if weights else None)
    checks.equal(
        f"{name}: KV cache tokens by the log",
        row["kv_tokens"],
        number(first(r"KV cache size: ([\d,]+) tokens", boot.log)),
    )
    concurrency = r"Maximum concurrency for [\d,]+ tokens per request: ([\d.,]+)x"
    checks.equal(f"{name}: max concurrency by the log", row["max_concurrency"], number(first(concurrency, boot.log)))
    length = number(first(r"Maximum concurrency for ([\d,]+) tokens per request", boot.log))
    checks.equal(f"{name}: at a request of so many tokens", row["max_concurrency_tokens"], length)
    checks.equal(
        f"{name}: engine version by the log",
        plain(row["engine_version"]),
        first(r"\bversion (\d+\.\d+\.\d+)", boot.log),
    )
    if boot.windows:
        info = boot.windows[0].before.labels_of("vllm:cache_config_info")
        checks.equal(
            f"{name}: KV cache tokens by cache_config_info", row["kv_tokens"], number(info["kv_cache_size_tokens"])
        )
        told = number(info["kv_cache_max_concurrency"])
        checks.equal(f"{name}: max concurrency by cache_config_info", row["max_concurrency"], told, tolerance=0.001)
    cold = row["cold_start_s"]
    checks.say(cold is not None and 3.0 < cold < 300.0, f"{name}: cold start", f"{cold} s")
    checks.say("Application startup complete" in boot.log, f"{name}: the whole log is there", f"{len(boot.log)} bytes")
    checks.say(bool(row["image_digest"]), f"{name}: image digest", str(row["image_digest"]))
    checks.say(not row["simulated"] and not row["box_simulated"], f"{name}: labelled as a real engine")


def plain(version: str | None) -> str | None:
    """A version without its local part: 0.32.0+cpu is 0.32.0."""
    return None if version is None else version.partition("+")[0].lstrip("v")


def check_window(checks: Checks, boot: Boot, window: Window) -> None:
    """The numbers of a window, computed again from its two raw pages."""
    row, what = window.row, f"{boot.name} {window.what}"
    if row["flags"]:
        print(f"     {what}: flagged {row['flags']}, not checked ({row['flag_details']})")
        return
    tokens = window.delta("vllm:generation_tokens_total")
    checks.equal(f"{what}: generation tokens", row["generation_tokens"], tokens)
    checks.equal(f"{what}: decode rate", row["decode_rate"], tokens / window.seconds, tolerance=1e-6)
    # A CPU that is all the engine's answers late, and may leave the probe none for seconds: it was seen to close one window in
    # ten 1 to 5 s late, all its threads without a core. The rate is of the time between the readings, however long that is.
    asked = row["seconds_asked"]
    long = 0.95 * asked < window.seconds < 2.0 * asked
    checks.say(long, f"{what}: the window is {asked:g} s and a late answer", f"{window.seconds:.3f} s")
    steps = window.delta("vllm:iteration_tokens_total_count")
    checks.equal(f"{what}: step time", row["step_time_s"], window.seconds / steps, tolerance=1e-6)
    _check_running(checks, what, window)
    _check_client(checks, what, window, tokens=tokens, most=_most_per_step(boot))
    if boot.speculative:
        _check_acceptance(checks, what, window)
        _check_balance(checks, what, boot, window, tokens=tokens)
    else:
        absent = all(row[name] is None for name in ("drafts", "acceptance_length", "acceptance_rate", "positions"))
        checks.say(absent, f"{what}: no speculation, no acceptance: absent and not 0")


def _most_per_step(boot: Boot) -> int:
    return int(boot.speculative.get("num_speculative_tokens", 0)) + 1


IN_FLIGHT = 0.98
"""Share of N x window in which requests must have been under way: what the product promises of a clean window."""

FILLED = 0.5
"""Streams in a step, as a share of N, that a clean window must have by the engine's own counters.

On this engine an answer lasts a second or two, and a request that follows it stands in HTTP and prefill for a few dozen of its
steps: 80 to 100% were seen. Steps with fewer streams are shorter, too. Half says that streams were not served one by one."""


EXACT = 0.7
"""Share of the windows in which the client must have every token within the edges: in 24 of 32 it had the very number."""

TOGETHER = 0.005
"""How far the client's tokens of all windows may be from the engine's: 0.1% was seen."""

STALLED = 0.1
"""Seconds without any chunk at the edges of a window from which its client is said to have got no core."""

LATE = 0.01
"""Seconds that a token is on its way at most, where nobody waits for a core."""


def _check_running(checks: Checks, what: str, window: Window) -> None:
    """The window opened with N running and none waiting, and N streams ran all through it, as the engine counts.

    A stream's step gives one token of its own and the accepted ones, so (tokens - accepted) / steps is how many streams
    an average step had. A client that stalls does not see its streams end; the engine's counters do.
    """
    asked = window.row["concurrency"]
    before = window.before.total("vllm:num_requests_running")
    waiting = window.before.total("vllm:num_requests_waiting")
    said = f"{before:.0f} running, {waiting:.0f} waiting"
    checks.say(before == asked and waiting == 0, f"{what}: the window opened full", said)
    accepted = window.delta("vllm:spec_decode_num_accepted_tokens_total") if window.after.positions() else 0.0
    streams = window.delta("vllm:generation_tokens_total") - accepted
    share = streams / window.delta("vllm:iteration_tokens_total_count") / asked
    opened, closed = window.edges
    under_way = sum(
        max(0.0, min(closed, request["ended"] or closed) - max(opened, request["sent"])) for request in window.requests
    )
    held = under_way / ((closed - opened) * asked)
    checks.say(held >= IN_FLIGHT, f"{what}: requests were under way all the time", f"{held:.1%} of {asked} x window")
    checks.say(
        share >= FILLED,
        f"{what}: and the engine ran them together",
        f"{share:.1%} of {asked} streams in an average step",
    )


def _check_client(checks: Checks, what: str, window: Window, *, tokens: float, most: int) -> None:
    """The client's own count of tokens inside the window agrees with the engine's counter, up to what was under way."""
    own = own_tokens(window)
    allowed = 0.02 * tokens + 2 * most * window.row["concurrency"] + tokens / window.seconds * deaf(window)
    checks.say(
        abs(own - tokens) <= allowed,
        f"{what}: client tokens against the counter",
        f"{own:.0f} against {tokens:.0f}, {allowed:.0f} allowed",
    )


def arrivals(request: Mapping[str, Any]) -> list[float]:
    """When each chunk of a request reached the client: stored are the nanoseconds from one to the next, or plain seconds."""
    times = request["chunk_at"]
    return times["s"] if "s" in times else [nanoseconds / 1e9 for nanoseconds in accumulate(times["ns"])]


def deaf(window: Window) -> float:
    """Seconds around the two edges in which nothing at all reached the client: a process without a core hears late.

    The counters are read by the same process, but stamped on both sides; what the engine made meanwhile came after the edge.
    """
    heard = sorted(at for request in window.requests for at in arrivals(request))
    silent = 0.0
    for edge in window.edges:
        last = max((at for at in heard if at <= edge), default=edge)
        silent += min((at for at in heard if at > edge), default=edge) - last
    return silent


def own_tokens(window: Window, *, aside: float = 0.0) -> float:
    """The client's own tokens inside the window, its edges moved outwards by so many seconds."""
    opened, closed = window.edges
    return sum(tokens_between(request, (opened - aside, closed + aside)) for request in window.requests)


def check_edges(checks: Checks, boots: list[Boot]) -> None:
    """All windows together: the client has the tokens that the engine counted, but for steps at the edges.

    One step ends on either side of a reading, and what it made reaches the client a moment after it was counted: a window is
    exact when the counter lies between the client's tokens with both edges a step (and the reading's own round trip) further
    in, and further out. A client that gets no core for a tenth of a second is late by more: no token is lost, says the sum.
    """
    exact, own, counted, windows, heard = 0, 0.0, 0.0, 0, 0
    for window in (one for boot in boots for one in boot.windows if not one.row["flags"]):
        tokens = window.delta("vllm:generation_tokens_total")
        step = window.seconds / window.delta("vllm:iteration_tokens_total_count")
        aside = step + window.row["relative_uncertainty"] * window.seconds + LATE
        exact += own_tokens(window, aside=-aside) <= tokens <= own_tokens(window, aside=aside)
        windows += 1
        if deaf(window) <= STALLED:
            own, counted, heard = own + own_tokens(window), counted + tokens, heard + 1
    checks.say(
        windows > 0 and exact >= EXACT * windows, "client tokens within the edges", f"{exact} of {windows} windows"
    )
    checks.say(
        heard >= EXACT * windows and abs(own - counted) <= TOGETHER * counted,
        "client tokens of all windows in which it was never deaf",
        f"{own:.0f} against {counted:.0f} in {heard} of {windows}",
    )


def tokens_between(request: Mapping[str, Any], edges: tuple[float, float]) -> float:
    """Tokens of one request that arrived inside the window."""
    arrived = arrivals(request)
    counts = request["chunk_tokens"]
    if not arrived:
        return 0.0
    if counts is None or len(counts) != len(arrived):
        raise SystemExit(f"{len(arrived)} chunks, but token counts of {counts and len(counts)}")
    return float(sum(count for at, count in zip(arrived, counts, strict=True) if edges[0] < at <= edges[1]))


def _check_acceptance(checks: Checks, what: str, window: Window) -> None:
    row = window.row
    drafts = window.delta("vllm:spec_decode_num_drafts_total")
    proposed = window.delta("vllm:spec_decode_num_draft_tokens_total")
    accepted = window.delta("vllm:spec_decode_num_accepted_tokens_total")
    checks.equal(f"{what}: drafts", row["drafts"], drafts)
    checks.equal(f"{what}: draft tokens", row["draft_tokens"], proposed)
    checks.equal(f"{what}: accepted tokens", row["accepted_tokens"], accepted)
    checks.equal(f"{what}: acceptance length", row["acceptance_length"], 1 + accepted / drafts, tolerance=1e-9)
    checks.equal(f"{what}: acceptance rate", row["acceptance_rate"], accepted / proposed, tolerance=1e-9)
    before, after = window.before.positions(), window.after.positions()
    found = [(after[i] - before.get(i, 0.0)) / drafts for i in sorted(after)]
    same = row["positions"] is not None and len(row["positions"]) == len(found)
    same = same and all(
        math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(row["positions"], found, strict=True)
    )
    checks.say(same, f"{what}: acceptance by position", " ".join(f"{value:.3f}" for value in found))
    checks.equal(f"{what}: positions add up to the accepted tokens", accepted, sum(found) * drafts, tolerance=1e-9)


def _check_balance(checks: Checks, what: str, boot: Boot, window: Window, *, tokens: float) -> None:
    """Tokens = drafts + accepted, but for first tokens of new requests, steps without a draft, and tokens cut off at an end.

    A request's first token comes from its prefill, without a draft. Its last step may accept tokens beyond the stop,
    which are not generated: at most k for each request that ended. N-gram drafts only when it finds a match.
    """
    drafts = window.delta("vllm:spec_decode_num_drafts_total")
    accepted = window.delta("vllm:spec_decode_num_accepted_tokens_total")
    begun = window.delta("vllm:time_to_first_token_seconds_count")
    ended = window.delta("vllm:e2e_request_latency_seconds_count")
    surplus = tokens - drafts - accepted - begun
    cut = (_most_per_step(boot) - 1) * ended
    undrafted = boot.speculative["method"] == "ngram"
    ok = surplus >= -cut and (undrafted or surplus <= 0)
    checks.say(
        ok,
        f"{what}: tokens against drafts + accepted",
        f"{tokens:.0f} - {drafts:.0f} - {accepted:.0f} - {begun:.0f} begun = {surplus:.0f}, {ended:.0f} ended",
    )


def check_synthetic(checks: Checks, boot: Boot) -> None:
    """The acceptance that the engine was told to have, within 3 standard errors of a share of so many drafts."""
    drafts = 0.0
    accepted: dict[int, float] = defaultdict(float)
    for window in boot.windows:
        if not window.row["flags"]:
            drafts += window.delta("vllm:spec_decode_num_drafts_total")
            for position, value in (window.row["positions"] and enumerate(window.row["positions"])) or ():
                accepted[position] += value * window.row["drafts"]
    for position, rate in enumerate(SYNTHETIC):
        share = accepted[position] / drafts
        error = math.sqrt(rate * (1 - rate) / drafts)
        z = (share - rate) / error
        checks.say(
            abs(z) < 3,
            f"{boot.name}: position {position} set to {rate}",
            f"{share:.4f} in {drafts:.0f} drafts, {z:+.2f} standard errors",
        )


def check_prefills(checks: Checks, boot: Boot, rows: list[Row], *, asked: int) -> None:
    """Fresh prompts of the asked length; rate = tokens / TTFT."""
    clean = [row for row in rows if not row["flags"]]
    checks.say(len(clean) >= 2, f"{boot.name}: prefill measured twice", f"{len(clean)} clean of {len(rows)}")
    for row in clean:
        checks.equal(f"{boot.name}: prefill tokens", row["prompt_tokens"], asked)
        checks.equal(f"{boot.name}: prefill rate", row["rate"], row["prompt_tokens"] / row["ttft_s"], tolerance=1e-6)
        checks.equal(f"{boot.name}: no cache had seen the prompt", row["cached_tokens"], 0)


def check_completeness(checks: Checks, sweep: Row, boots: list[Boot]) -> None:
    """Four configs, each with all its cells and repeats, measured once."""
    checks.say(sweep["state"] == "done", "the sweep is done", f"{sweep['state']}: {sweep['note']}")
    names = [boot.name for boot in boots]
    checks.say(sorted(set(names)) == sorted(names) and len(names) == 4, "four configs, one boot each", ", ".join(names))
    for boot in boots:
        clean = [
            (w.row["concurrency"], str(w.row["temperature"]), w.row["repeat"])
            for w in boot.windows
            if not w.row["flags"]
        ]
        wanted = {(c, t, r) for c in (1, 4) for t in ("0.70", "1.00") for r in (0, 1)}
        checks.say(
            set(clean) == wanted and len(clean) == 8, f"{boot.name}: each repeat measured once", f"{len(clean)} of 8"
        )


def main() -> int:
    """Check the newest sweep, or the newest of a name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="PostgreSQL URL of the database")
    parser.add_argument("--sweep", help="name of the sweep; default the newest")
    options = parser.parse_args()
    checks = Checks()
    url = options.url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(url, row_factory=dict_row) as connection:
        connection.read_only = True
        query = "select * from sweeps where %s::text is null or name = %s order by id desc limit 1"
        sweep = connection.execute(query, (options.sweep, options.sweep)).fetchone()
        if sweep is None:
            print(f"no sweep {options.sweep or ''}")
            return 1
        boots = list(boots_of(connection, sweep["id"]))
        check_completeness(checks, sweep, boots)
        check_edges(checks, boots)
        for boot in boots:
            check_boot(checks, boot)
            for window in boot.windows:
                check_window(checks, boot, window)
            if boot.speculative.get("rejection_sample_method") == "synthetic":
                check_synthetic(checks, boot)
            check_prefills(checks, boot, connection.execute(PREFILLS, (boot.row["id"],)).fetchall(), asked=2000)
    print(f"{checks.passed} checks passed, {checks.failed} failed")
    return 1 if checks.failed or not checks.passed else 0


if __name__ == "__main__":
    sys.exit(main())
