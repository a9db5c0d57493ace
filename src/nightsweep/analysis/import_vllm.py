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
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nightsweep.analysis.import_columns import (
    RATES,
    Place,
    Wrong,
    count_of,
    number_of,
    positive,
    row_of,
    unknown_column,
    whole_of,
)
from nightsweep.analysis.import_names import NAME
from nightsweep.analysis.import_vllm_keys import NOT_KEPT, OF_THE_LOAD, TOLD, Record, of_the_client, overrides
from nightsweep.analysis.imported import BENCH_SERVE, BENCH_SWEEP, ImportedRow
from nightsweep.errors import InvalidImport
from nightsweep.plan.mistakes import shown
from nightsweep.plan.words import WHOLE_RUN

MILLI = 1e-3
UNEQUAL = 0.01
"""Share by which a rate may differ from its own tokens by its time: what rounding leaves."""
SUMMED = ("ttft", "tpot", "e2e")
WRITTEN_AS = {"e2e": "e2el"}
Fields = dict[str, tuple[str, Any]]
"""By column: the key of the file that it is from, which is what a mistake names, and the value there."""
MOST_UNEVEN = 20
AS_WRITTEN = "take the file as the client wrote it"
DEEPEST = 50
TEXTS = (NAME, "label", "model_id", "model", "image")
"""Keys that hold a text, also where it reads as a number."""
TOO_DEEP = "it is nested too deeply to be a result"


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
        raise InvalidImport(problems=(f"{file}: {TOO_DEEP}",)) from error
    except ValueError as error:  # a number of thousands of digits
        raise InvalidImport(problems=(f"{file}: it holds a number that is none: {error}",)) from error
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
    if _deeper(one, than=DEEPEST):
        return TOO_DEEP
    if "output_throughput" in one:
        return None
    if "avg_latency" in one or "elapsed_time" in one:
        return "output_throughput is absent: this is of `vllm bench latency` or `throughput`, which hold no streams of a server"
    if "error_type" in one:
        return f"it is a failure that the sweep wrote ({shown(one['error_type'])}), and no result"
    return "output_throughput is absent: this is no result of `vllm bench serve --save-result`"


def _deeper(value: Any, *, than: int) -> bool:
    members = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return than == 0 or any(_deeper(one, than=than - 1) for one in members if isinstance(one, Mapping | list | tuple))


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
    uneven = [place for place, row in enumerate(rows, start=1) if None in row or None in row.values()]
    if uneven:
        raise InvalidImport(
            problems=tuple(
                f"{file}: result {place}: its line has not as many fields as the header; {AS_WRITTEN}"
                for place in uneven[:MOST_UNEVEN]
            )
        )
    return [{key: _told(key, value) for key, value in row.items() if key and value != ""} for row in rows]


def _told(key: str, text: str) -> Any:
    value = _literal(text)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return text if number and key in TEXTS else value


def _literal(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if _of_json(value) and not _deeper(value, than=DEEPEST) else text


def _of_json(value: Any) -> bool:
    """Whether a literal of Python's is one that a client's JSON may have held: no set, no bytes, no key that is a number."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _of_json(member) for key, member in value.items())
    if isinstance(value, list | tuple):
        return all(map(_of_json, value))
    return value is None or isinstance(value, str | int | float)


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
    if not _there(one, "output_throughput") and not RATES.keys() & given.keys():
        raise Wrong("output_throughput", f"found {shown(one.get('output_throughput'))}; {AS_WRITTEN}")
    flags = _flags(one)
    failed = bool(flags) and _nothing_came(one)
    numbers = _of_nothing(one) if failed else _numbers(one)
    fields = {**_config(one, tool=place.tool), **numbers, **_load(one), **_metadata(one, place.tool)}
    columns = {**{column: value for column, (_, value) in fields.items()}, **given}
    if place.tool == BENCH_SERVE and "engine" not in columns and _has_counters(one):
        columns["engine"] = "vllm"
    try:
        return row_of(columns, place, flags=flags, failed=WHOLE_RUN if failed else None)
    except Wrong as wrong:
        if wrong.column in given or wrong.column not in fields:
            raise
        said = wrong.said.replace(wrong.other, fields[wrong.other][0]) if wrong.other in fields else wrong.said
        raise Wrong(fields[wrong.column][0], said) from None


def _there(one: Record, key: str) -> bool:
    return one.get(key) is not None and one[key] != ""


def _read(one: Record, key: str, read: Callable[[str, Any], Any]) -> Any:
    """Return what `read` makes of a key's value; None where it is absent."""
    return read(key, one[key]) if _there(one, key) else None


def tool_of(records: list[Record]) -> str:
    """Return which of the two wrote these results: a sweep numbers its runs."""
    return BENCH_SWEEP if any("run_number" in one for one in records) else BENCH_SERVE


def _has_counters(one: Record) -> bool:
    """Whether the client read counters of speculation, which are vLLM's own by name."""
    return any(key.startswith("spec_decode_") for key in one)


def _metadata(one: Record, tool: str) -> Fields:
    """Return what `--metadata KEY=VALUE` said: a column where there is one of that name, else a condition."""
    if tool != BENCH_SERVE:
        return {}
    return {
        key if unknown_column(key) is None else f"condition.{key}": (key, value)
        for key, value in overrides(one).items()
    }


# --- config ----------------------------------------------------------------------------------------------------------


def _config(one: Record, *, tool: str) -> Fields:
    server = overrides(one) if tool == BENCH_SWEEP else {}
    fields: Fields = {"model": ("model_id", one.get("model_id")), "config": _name(one, server)}
    if tool == BENCH_SWEEP:
        fields["engine"] = ("engine", "vllm")
        # One server serves all runs of a combination: what differs from boot to boot is between them.
        fields["boot"] = ("boot", json.dumps(server, sort_keys=True, default=str))
    for key, value in server.items():
        fields |= {column: (key, part) for column, part in _argument(key, value)}
    return fields


def _name(one: Record, server: Mapping[str, Any]) -> tuple[str, Any]:
    for key in (NAME, "label"):
        if _there(one, key):
            return key, one[key]
    if server:
        name = ", ".join(f"{key}={_short(value)}" for key, value in server.items())
        return "config", name.replace("\0", "")  # it is told of the argument that holds it
    return "model_id", one.get("model_id")


def _argument(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a server's argument as columns: the speculative settings one by one, as a sweep file has them."""
    head, _, rest = key.partition(".")
    plain = head.replace("_", "-")
    if plain == "speculative-config":
        settings = {rest: value} if rest else _mapping(key, value)
        yield from ((f"speculative.{name}", item) for name, item in settings.items())
    elif plain in ("model", "image"):
        yield plain, value
    else:
        yield f"args.{plain}" + (f".{rest}" if rest else ""), value


def _mapping(key: str, value: Any) -> Mapping[str, Any]:
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, Mapping) or _deeper(found, than=DEEPEST):
        raise Wrong(key, f"found {shown(value)}; it is no JSON object: {AS_WRITTEN}")
    return found


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={item}" for key, item in value.items())
    return str(value)


# --- numbers and load ------------------------------------------------------------------------------------------------


def _agrees(one: Record) -> None:
    """Raise Wrong where a rate is not what its own tokens and time say: the file was changed, or is of something else."""
    rate = _read(one, "output_throughput", positive)
    tokens = _read(one, "total_output_tokens", count_of)
    duration = _read(one, "duration", positive)
    if not rate or not tokens or not duration:
        return
    if abs(rate * duration - tokens) > UNEQUAL * tokens:
        said = f"found {shown(one['output_throughput'])}, but total_output_tokens / duration is {tokens / duration:.6g}"
        raise Wrong("output_throughput", f"{said}: {AS_WRITTEN}")


def _numbers(one: Record) -> Fields:
    _agrees(one)
    return _written(one) | dict(_times(one)) | _acceptance(one)


def _written(one: Record) -> Fields:
    fields: Fields = {
        column: (key, one.get(key))
        for column, key in (
            ("whole_run_rate", "output_throughput"),
            ("concurrency", "max_concurrency"),
            ("temperature", "temperature"),
            ("date", "date"),
            ("window_s", "duration"),
            ("generation_tokens", "total_output_tokens"),
        )
    }
    return fields | {"n": ("n", 1)}


def _nothing_came(one: Record) -> bool:
    """Whether no request brought a token: the client wrote a rate of 0, and 0 for times that there are not."""
    return _read(one, "output_throughput", _from_0) == 0 and not _read(one, "total_output_tokens", count_of)


def _of_nothing(one: Record) -> Fields:
    """Return what is known of such a run: when and how long it ran, with how many streams, and that no token came."""
    told = ("concurrency", "temperature", "date", "window_s", "generation_tokens", "n")
    return {column: field for column, field in _written(one).items() if column in told}


def _times(one: Record) -> Iterator[tuple[str, tuple[str, float]]]:
    for name in SUMMED:
        written = WRITTEN_AS.get(name, name)
        for part, statistic in (("mean", "mean"), ("p50", "median"), ("p90", "p90"), ("p99", "p99")):
            key = f"{statistic}_{written}_ms"
            # Old clients wrote NaN for a mean of nothing, as TPOT is where no answer has two tokens.
            if _there(one, key) and not (isinstance(one[key], float) and math.isnan(one[key])):
                yield f"{name}_{part}_s", (key, number_of(key, one[key], least=0) * MILLI)


def _acceptance(one: Record) -> Fields:
    """Return what the client read of the server's counters of speculation; its rate is in percent."""
    if not _read(one, "spec_decode_num_drafts", count_of):
        return {}
    rate = _read(one, "spec_decode_acceptance_rate", _percent)
    positions = one.get("spec_decode_per_position_acceptance_rates")
    return {
        "acceptance_length": _as_it_is(one, "spec_decode_acceptance_length"),
        "acceptance_rate": ("spec_decode_acceptance_rate", None if rate is None else rate / 100),
        "positions": ("spec_decode_per_position_acceptance_rates", None if positions == [] else positions),
        "drafts": _as_it_is(one, "spec_decode_num_drafts"),
        "draft_tokens": _as_it_is(one, "spec_decode_draft_tokens"),
        "accepted_tokens": _as_it_is(one, "spec_decode_accepted_tokens"),
    }


def _as_it_is(one: Record, key: str) -> tuple[str, Any]:
    return key, one.get(key)


def _from_0(key: str, value: Any) -> float:
    return number_of(key, value, least=0)


def _percent(key: str, value: Any) -> float:
    return number_of(key, value, least=0, most=100, form="percent as a number: 52.3")


def _load(one: Record) -> Fields:
    """Return the client's traffic as conditions: what it writes of it, and the options that a sweep set."""
    for key, read in LOAD.items():
        _read(one, key, read)  # what is kept is as the client wrote it
    found = {key: (key, one[key]) for key in OF_THE_LOAD if one.get(key) is not None}
    found |= {
        key.replace("-", "_"): (key, value)
        for key, value in one.items()
        if key not in TOLD and of_the_client(key) and key.replace("-", "_") not in NOT_KEPT
    }
    return {f"client.{name}": field for name, field in found.items()}


def _arrivals(key: str, value: Any) -> Any:
    return value if value == "inf" else number_of(key, value, least=0, above=True, form='requests / second, or "inf"')


def _a_text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise Wrong(key, f"found {shown(value)}; write a text")
    return value


LOAD: Mapping[str, Callable[[str, Any], Any]] = {
    "backend": _a_text,
    "num_prompts": lambda key, value: whole_of(key, value, least=1),
    "request_rate": _arrivals,
    "burstiness": positive,
}
"""What may stand in the keys of the client's own traffic."""


def _flags(one: Record) -> dict[str, str]:
    failed, asked, done = (_read(one, key, count_of) for key in ("failed", "num_prompts", "completed"))
    if failed:
        return {"request_failed": f"{failed} requests failed"}
    if asked is not None and done is not None and done < asked:
        return {"request_failed": f"{done} of {asked} requests were completed"}
    return {}
