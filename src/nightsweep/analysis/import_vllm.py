"""Results of `vllm bench serve` and `vllm bench sweep`, put into the columns of an import.

Its `output_throughput` is all output tokens over the whole duration, with ramp, prefill and tail: a whole run's rate, and no
decode rate in a window. Its client does not write the temperature (older versions sent 0 unless asked, newer ones send none), nor
the server's arguments; a sweep writes the overrides of its own parameters, and not the commands that they override.

Source:
    vllm/benchmarks/serve.py `benchmark`, `main_async`; sweep/serve.py `_update_run_data`, `run_comb` (0.32.0).
    Older results lack `failed` and `spec_decode_*`, and have `request_goodput:` with its colon.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from nightsweep.analysis.import_columns import Place, Wrong, row_of, unknown_column
from nightsweep.analysis.imported import BENCH_SERVE, BENCH_SWEEP, ImportedRow
from nightsweep.errors import InvalidImport
from nightsweep.plan.mistakes import shown

Record = Mapping[str, Any]

MILLI = 1e-3
UNEQUAL = 0.01
"""Share by which a rate may differ from its own tokens by its time: what rounding leaves."""
SUMMED = ("ttft", "tpot", "e2e")
WRITTEN_AS = {"e2e": "e2el"}
PER_REQUEST = frozenset(
    [
        "input_lens",
        "output_lens",
        "ttfts",
        "itls",
        "latencies",
        "start_times",
        "queue_times",
        "generated_texts",
        "errors",
    ]
)
"""One value for each request: left out, the texts among them."""
OF_THE_LOAD = ("backend", "num_prompts", "request_rate", "burstiness")
"""Keys of the client's own traffic: conditions."""
TOLD = frozenset(
    (
        *[
            "date",
            "endpoint_type",
            "label",
            "model_id",
            "tokenizer_id",
            "best_of",
            "use_beam_search",
            "duration",
            "completed",
            "failed",
        ],
        *["total_input_tokens", "total_output_tokens", "request_throughput", "request_goodput", "request_goodput:"],
        *["output_throughput", "total_token_throughput", "max_concurrency", "rtfx", "run_number", "_benchmark_name"],
        *[
            "max_output_tokens_per_s",
            "max_concurrent_requests",
            "ramp_up_strategy",
            "ramp_up_start_rps",
            "ramp_up_end_rps",
        ],
        *["rps_change_events", "temperature", "user_centric_rate"],
        *OF_THE_LOAD,
        *PER_REQUEST,
    )
)
"""Keys that the client writes, or that are read by name here; `mean_..._ms` and `spec_decode_...` are told by their form."""
CLIENT_OPTIONS = (
    *[
        "dataset",
        "random",
        "custom",
        "sharegpt",
        "hf",
        "sonnet",
        "prefix_repetition",
        "spec_bench",
        "speed_bench",
        "blazedit",
        "bfcl",
        "asr",
        "timed_trace",
    ],
    *[
        "seed",
        "input_len",
        "output_len",
        "ignore_eos",
        "num_warmups",
        "logprobs",
        "use_beam_search",
        "top_p",
        "top_k",
        "min_p",
        "endpoint",
    ],
    *[
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "skip_chat_template",
        "disable_shuffle",
        "range_ratio",
    ],
    *[
        "goodput",
        "percentile_metrics",
        "metric_percentiles",
        "extra_body",
        "chat_template_kwargs",
        "lora",
        "no_oversample",
    ],
    *["ready_check_timeout_sec", "host", "port", "base_url", "tokenizer", "header", "request_id_prefix", "self_timed"],
)
"""What options of the client begin with; an override of a sweep that is none of them is the server's."""
NOT_KEPT = ("header", "base_url", "host", "port")
"""Options that name somebody's machine or key."""


class NoStreams(Wrong):
    """A run that held no number of streams: requests came at a rate, or all at once."""


def read_json(text: str, *, file: str) -> list[Record]:
    """Return the results of a JSON file: one, a list (a sweep's summary), or one after another (`--append-result`).

    Raises:
        InvalidImport: It is no JSON, or no such results.
    """
    decoder, at = json.JSONDecoder(), 0
    found: list[Any] = []
    try:
        while text[at:].strip():
            at += len(text[at:]) - len(text[at:].lstrip())
            value, at = decoder.raw_decode(text, at)
            found += value if isinstance(value, list) else [value]
    except json.JSONDecodeError as error:
        raise InvalidImport(problems=(f"{file}:{error.lineno}: it is no JSON: {error.msg}; is it whole?",)) from error
    except RecursionError as error:
        raise InvalidImport(problems=(f"{file}: it is nested too deeply to be a result",)) from error
    if not found:
        raise InvalidImport(problems=(f"{file}: it holds no result",))
    for place, one in enumerate(found, start=1):
        problem = _not_a_result(one)
        if problem is not None:
            raise InvalidImport(problems=(f"{file}: result {place}: {problem}",))
    return found


def _not_a_result(one: Any) -> str | None:
    if not isinstance(one, Mapping):
        return "it is no object; write `vllm bench serve --save-result` results, or the plain CSV"
    if "output_throughput" in one:
        return None
    if "avg_latency" in one or "elapsed_time" in one:
        return "output_throughput is absent: this is of `vllm bench latency` or `throughput`, which hold no streams of a server"
    if "error_type" in one:
        return f"it is a failure that the sweep wrote ({shown(one['error_type'])}), and no result"
    return "output_throughput is absent: this is no result of `vllm bench serve --save-result`"


def is_summary(text: str) -> bool:
    """Return whether a CSV text is the summary that a sweep writes."""
    header = text.split("\n", 1)[0]
    return "output_throughput" in header and "run_number" in header


def read_summary(text: str, *, file: str) -> list[Record]:
    """Return the results in a sweep's `summary.csv`, in which a list or object is written as Python writes it.

    Raises:
        InvalidImport: It is no CSV.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise InvalidImport(problems=(f"{file}: it is no CSV: {error}",)) from error
    if not rows:
        raise InvalidImport(problems=(f"{file}: it has a header and no row",))
    return [
        {key: _literal(value) for key, value in row.items() if key and isinstance(value, str) and value != ""}
        for row in rows
    ]


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def row_of_result(one: Record, place: Place, *, given: Mapping[str, str]) -> ImportedRow:
    """Return the row of one result.

    Args:
        given: Values by column that stand for every row, whatever the file has there.

    Raises:
        Wrong: What is absent, or cannot be meant, and what to say in its place.
        NoStreams: It held no number of streams.
    """
    if one.get("max_concurrency") is None and "concurrency" not in given:
        rate = one.get("request_rate")
        said = f"it is null: requests came at a rate ({shown(rate)}), so no number of streams was held"
        raise NoStreams("max_concurrency", f"{said}; --skip-open-loop leaves such runs out")
    columns = {**_config(one, tool=place.tool), **_numbers(one), **_load(one), **_metadata(one, place.tool), **given}
    if place.tool == BENCH_SERVE and "engine" not in columns and _has_counters(one):
        columns["engine"] = "vllm"
    return row_of(columns, place, flags=_flags(one))


def tool_of(records: list[Record]) -> str:
    """Return which of the two wrote these results: a sweep numbers its runs."""
    return BENCH_SWEEP if any("run_number" in one for one in records) else BENCH_SERVE


def _has_counters(one: Record) -> bool:
    """Whether the client read counters of speculation, which are vLLM's own by name."""
    return any(key.startswith("spec_decode_") for key in one)


def _metadata(one: Record, tool: str) -> dict[str, Any]:
    """Return what `--metadata KEY=VALUE` said: a column where there is one of that name, else a condition."""
    if tool != BENCH_SERVE:
        return {}
    said = dict(_overrides(one))
    return {key if unknown_column(key) is None else f"condition.{key}": value for key, value in said.items()}


# --- config ----------------------------------------------------------------------------------------------------------


def server_of(one: Record) -> dict[str, Any]:
    """Return what a sweep set on the server of a result."""
    return dict(_overrides(one))


def _config(one: Record, *, tool: str) -> dict[str, Any]:
    server = server_of(one) if tool == BENCH_SWEEP else {}
    name = (
        one.get("_benchmark_name") or one.get("label") or ", ".join(f"{key}={_short(v)}" for key, v in server.items())
    )
    columns: dict[str, Any] = {"model": one.get("model_id"), "config": str(name or one.get("model_id") or "")}
    if tool == BENCH_SWEEP:
        columns["engine"] = "vllm"
        # One server serves all runs of a combination: what differs from boot to boot is between them.
        columns["boot"] = json.dumps(server, sort_keys=True, default=str)
    for key, value in server.items():
        columns |= dict(_argument(key, value))
    return columns


def _overrides(one: Record) -> Iterator[tuple[str, Any]]:
    """Yield what a sweep set on the server: what neither the client writes nor one of its options is called."""
    for key, value in one.items():
        if key and not _of_the_client(key) and not _is_number(key):
            yield key, value


def _of_the_client(key: str) -> bool:
    plain = key.replace("-", "_").split(".")[0]
    return plain in TOLD or key in TOLD or any(plain == name or plain.startswith(f"{name}_") for name in CLIENT_OPTIONS)


def _is_number(key: str) -> bool:
    return key.startswith(("spec_decode_", "diffusion_", "probe_")) or (key.endswith("_ms") and "_" in key)


def _argument(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a server's argument as columns: the speculative settings one by one, as a sweep file has them."""
    head, _, rest = key.partition(".")
    plain = head.replace("_", "-")
    if plain == "speculative-config":
        settings = {rest: value} if rest else _mapping(value)
        yield from ((f"speculative.{name}", item) for name, item in settings.items())
    elif plain in ("model", "image"):
        yield plain, value
    else:
        yield f"args.{plain}" + (f".{rest}" if rest else ""), value


def _mapping(value: Any) -> Mapping[str, Any]:
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, Mapping):
        raise Wrong("speculative_config", f"found {shown(value)}; it is no JSON object")
    return found


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={item}" for key, item in value.items())
    return str(value)


# --- numbers and load ------------------------------------------------------------------------------------------------


def _agrees(one: Record) -> None:
    """Raise Wrong where a rate is not what its own tokens and time say: the file was changed, or is of something else."""
    keys = ("output_throughput", "total_output_tokens", "duration")
    numbers = [value for key in keys if isinstance(value := one.get(key), int | float) and value > 0]
    if len(numbers) < len(keys):
        return
    rate, told = numbers[0], numbers[1] / numbers[2]
    if abs(rate / told - 1) > UNEQUAL:
        said = f"found {shown(rate)}, but total_output_tokens / duration is {told:.6g}"
        raise Wrong("output_throughput", f"{said}: take the file as the client wrote it")


def _numbers(one: Record) -> dict[str, Any]:
    _agrees(one)
    columns: dict[str, Any] = {
        "whole_run_rate": one.get("output_throughput"),
        "concurrency": one.get("max_concurrency"),
        "temperature": one.get("temperature"),
        "date": one.get("date"),
        "n": 1,
        "window_s": one.get("duration"),
        "generation_tokens": one.get("total_output_tokens"),
    }
    for name in SUMMED:
        written = WRITTEN_AS.get(name, name)
        for part, key in (("mean", "mean"), ("p50", "median"), ("p90", "p90"), ("p99", "p99")):
            value = one.get(f"{key}_{written}_ms")
            if isinstance(value, int | float) and math.isfinite(value):
                columns[f"{name}_{part}_s"] = value * MILLI
    return columns | _acceptance(one)


def _acceptance(one: Record) -> dict[str, Any]:
    """Return what the client read of the server's counters of speculation; its rate is in percent."""
    drafts = one.get("spec_decode_num_drafts")
    if not drafts:
        return {}
    percent = one.get("spec_decode_acceptance_rate")
    return {
        "acceptance_length": one.get("spec_decode_acceptance_length"),
        "acceptance_rate": None if percent is None else percent / 100,
        "positions": one.get("spec_decode_per_position_acceptance_rates") or None,
        "drafts": drafts,
        "draft_tokens": one.get("spec_decode_draft_tokens"),
        "accepted_tokens": one.get("spec_decode_accepted_tokens"),
    }


def _load(one: Record) -> dict[str, Any]:
    """Return the client's traffic as conditions: what it writes of it, and the options that a sweep set."""
    found = {key: one[key] for key in OF_THE_LOAD if one.get(key) is not None}
    found |= {
        key.replace("-", "_"): value
        for key, value in one.items()
        if key not in TOLD and _of_the_client(key) and key.replace("-", "_") not in NOT_KEPT
    }
    return {f"client.{key}": value for key, value in found.items()}


def _flags(one: Record) -> dict[str, str]:
    failed, asked, done = one.get("failed"), one.get("num_prompts"), one.get("completed")
    if failed:
        return {"request_failed": f"{failed} requests failed"}
    if isinstance(asked, int) and isinstance(done, int) and done < asked:
        return {"request_failed": f"{done} of {asked} requests were completed"}
    return {}
