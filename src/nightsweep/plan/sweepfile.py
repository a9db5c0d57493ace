"""Reads a sweep file: text in, plan out, or all its mistakes at once with line, key, found, allowed and remedy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from nightsweep.errors import InvalidPlan
from nightsweep.plan import yamltree
from nightsweep.plan.control_in import control_of
from nightsweep.plan.decide_in import REPEATS, decide_of, split_repeats
from nightsweep.plan.expand import Expansion, base_of, expand
from nightsweep.plan.expect_in import box_of, expect_of
from nightsweep.plan.feasible import feasible
from nightsweep.plan.fingerprint import plan_fingerprint
from nightsweep.plan.mistakes import Mistake, Path, Refused, dotted, shown
from nightsweep.plan.model import (
    EngineConfig,
    PrefillSpec,
    ProbeSpec,
    Production,
    SamplingSpec,
    Schedule,
    SecretRef,
    SingleBatchSpec,
    SweepPlan,
)
from nightsweep.plan.quantities import text as read_text
from nightsweep.plan.schema import (
    TOP_KEYS,
    ConfigIn,
    EngineIn,
    PrefillIn,
    ProbeIn,
    ProductionIn,
    SamplingIn,
    ScheduleIn,
    Section,
    SingleBatchIn,
)
from nightsweep.plan.sections import checked, unknown_top_keys
from nightsweep.units import Seconds, Tokens

S = TypeVar("S", bound=Section)

_ENGINE_STAND_INS = {"kind": "vllm", "model": "model", "image": "image"}
_WORDS_THAT_YAML_ONCE_READ = frozenset({"yes", "no", "on", "off"})
MOST_WINDOWS = 200_000
"""Measurements of one sweep at most: at 40 s each they take three months."""


def load(text: str, *, source: str = "sweep file") -> SweepPlan:
    """Return the plan of a sweep file.

    The prompt set is named only; pin its content with `with_prompts_hash` before anything is measured.

    Args:
        source: What the file is called in messages.

    Raises:
        InvalidPlan: With all mistakes in `problems`, each a line "source:line: key: found ...; allowed: ... remedy".
    """
    tree = yamltree.read(text)
    reading = _Reading(mistakes=list(tree.mistakes))
    plan = _plan(tree.value, reading) if tree.root is not None else None
    if reading.mistakes or plan is None:
        own = [one for one in reading.mistakes[len(tree.mistakes) :] if one.path not in tree.lost]
        raise InvalidPlan(problems=_told([*tree.mistakes, *own], tree=tree, source=source))
    warnings = tuple(f"{source}:{tree.line(path)}: {_place(path)}{said}" for path, said in reading.warnings)
    return SweepPlan(**{**plan, "warnings": warnings})


@dataclass
class _Reading:
    mistakes: list[Mistake]
    warnings: list[tuple[Path, str]] = field(default_factory=list)

    def section(self, model: type[S], raw: Any, path: Path, stand_ins: dict[str, Any] | None = None) -> S | None:
        value, mistakes = checked(model, raw, path=path, stand_ins=stand_ins)
        self.mistakes += mistakes
        return value


def _told(mistakes: list[Mistake], *, tree: yamltree.Tree, source: str) -> tuple[str, ...]:
    told = {m.told(source=source, line=tree.line(m.path)): m.line or tree.line(m.path) for m in mistakes}
    return tuple(sorted(told, key=lambda one: told[one]))


def _place(path: Path) -> str:
    return f"{dotted(path)}: " if path else ""


def _plan(raw: Any, reading: _Reading) -> dict[str, Any] | None:
    if not isinstance(raw, dict):
        found = shown(raw) if not isinstance(raw, list) else "a list"
        reading.mistakes.append(Mistake((), found, f"a mapping with the keys {', '.join(TOP_KEYS)}"))
        return None
    reading.mistakes += unknown_top_keys(raw)
    given = _required(raw, "engine", reading)
    engine = reading.section(EngineIn, given, ("engine",), _stand_ins(given))
    entries = _entries(raw, reading)
    repeats, probe_in = split_repeats(_required(raw, "probe", reading), reading.mistakes)
    probe = _probe(probe_in, reading)
    box, bandwidth = box_of(raw.get("box"), reading.mistakes)
    parts: dict[str, Any] = {
        "name": _text(raw, "name", reading),
        "box": box,
        "memory_bandwidth": bandwidth,
        "production": _production(raw.get("production"), reading),
        "schedule": _schedule(raw.get("schedule"), reading),
    }
    if engine is None:
        return None
    configs = _configs(engine, entries, reading)
    _warn_arguments(engine, entries, reading)
    if probe is not None and all(mistake.path[:2] == REPEATS for mistake in reading.mistakes):
        parts["decide"] = decide_of(repeats, configs, probe, reading.mistakes)
    if probe is None or reading.mistakes:
        return None
    parts["control"] = control_of(raw.get("control"), configs, reading.mistakes)
    parts["expect"] = expect_of(raw.get("expect"), configs, probe, reading.mistakes)
    decide = parts["decide"]
    probe = replace(probe, draws_by_repeat=decide is not None)
    _refuse_endless(configs, probe, reading, repeats=probe.repeats if decide is None else decide.most)
    _check_api(configs, probe, reading)
    _check_feasible(configs, probe, reading)
    if reading.mistakes:
        return None
    probe = _with_engine_key(probe, configs)
    return {**parts, "configs": configs, "probe": probe, "fingerprint": plan_fingerprint(configs, probe)}


def _refuse_endless(configs: tuple[EngineConfig, ...], probe: ProbeSpec, reading: _Reading, *, repeats: int) -> None:
    """Refuse what nobody could ever measure, before it is expanded: a slipped zero must not eat the machine's memory."""
    prefill = 0 if probe.prefill is None else probe.prefill.repeats * probe.boots
    single = 0 if probe.single_batch is None else probe.single_batch.runs
    cells = len(probe.concurrency) * len(probe.temperature)
    each = cells * repeats + prefill + single
    if each * len(configs) <= MOST_WINDOWS and probe.boots <= MOST_WINDOWS:
        return
    found = f"{len(configs):,} configs x {each:,} measurements = {len(configs) * each:,}"
    remedy = "Lower repeats, boots, the grid, concurrency or temperature, or make several sweeps of it."
    reading.mistakes.append(Mistake(("probe", "repeats"), found, f"at most {MOST_WINDOWS:,} in one sweep", remedy))


def _stand_ins(engine: Any) -> dict[str, Any]:
    """Return what takes the place of required keys that are wrong, so that other mistakes are found in the same go.

    A process has no image: standing in for one would be told as a mistake of its own.
    """
    process = isinstance(engine, dict) and engine.get("host") == "process"
    return {key: value for key, value in _ENGINE_STAND_INS.items() if not (process and key == "image")}


def _required(raw: dict[str, Any], key: str, reading: _Reading) -> Any:
    if raw.get(key) is None:
        found = "nothing" if key not in raw else "nothing (null)"
        reading.mistakes.append(Mistake((key,), found, "a section; it is required", f"Add `{key}:`."))
        return {} if key == "probe" else dict(_ENGINE_STAND_INS)
    return raw[key]


def _text(raw: dict[str, Any], key: str, reading: _Reading) -> str | None:
    value = raw.get(key)
    try:
        return read_text(value)
    except Refused as refused:
        remedy = refused.remedy or f"Add `{key}: ...`."
        found = shown(value) if key in raw else "nothing"
        reading.mistakes.append(Mistake((key,), found, refused.allowed, remedy))
        return None


def _entries(raw: dict[str, Any], reading: _Reading) -> list[tuple[Path, ConfigIn]]:
    listed = raw.get("configs")
    if not isinstance(listed, list) or not listed:
        found = "nothing" if listed is None else "an empty list" if listed == [] else shown(listed)
        remedy = "Add `configs: [{name: baseline}]`; a config without `speculative` is one without speculation."
        reading.mistakes.append(Mistake(("configs",), found, "a list with at least one config", remedy))
        return []
    out: list[tuple[Path, ConfigIn]] = []
    for index, entry in enumerate(listed):
        path: Path = ("configs", index)
        section = reading.section(ConfigIn, entry, path, {"name": f"configs[{index}]"})
        # Without its grid an entry's name would seem to ask for keys that are not there.
        lost = {key for key in ("grid", "speculative") if isinstance(entry, dict) and entry.get(key) is not None}
        if section is not None and lost <= section.model_fields_set:
            out.append((path, section))
    return out


# --- configs -----------------------------------------------------------------------------------------------------


def _configs(engine: EngineIn, entries: list[tuple[Path, ConfigIn]], reading: _Reading) -> tuple[EngineConfig, ...]:
    told_before = bool(reading.mistakes)
    plain = base_of(engine)
    expansions = [(path, expand(engine, entry, path=path, plain=plain)) for path, entry in entries]
    for _, expansion in expansions:
        reading.mistakes += expansion.mistakes
        reading.warnings += expansion.warnings
    _check_names(expansions, reading)
    if not told_before and not reading.mistakes:  # with mistakes, stand-ins may make different configs equal
        _check_content(expansions, reading)
    return tuple(config for _, expansion in expansions for config in expansion.configs)


def _check_names(expansions: list[tuple[Path, Expansion]], reading: _Reading) -> None:
    first: dict[str, Path] = {}
    for path, expansion in expansions:
        for name in dict.fromkeys(config.name for config in expansion.configs):
            if name in first:
                found = f"the name {shown(name)}, which {_short(first[name])} has too"
                reading.mistakes.append(Mistake((*path, "name"), found, "a name for each config", "Rename one."))
            first.setdefault(name, path)


def _check_content(expansions: list[tuple[Path, Expansion]], reading: _Reading) -> None:
    first: dict[str, EngineConfig] = {}
    for path, expansion in expansions:
        for config in expansion.configs:
            other = first.setdefault(config.fingerprint, config)
            if other is not config:
                found = f"one engine config under two names: {shown(other.name)} and {shown(config.name)}"
                remedy = "Drop one, or change a setting in one of them."
                reading.mistakes.append(Mistake(path, found, "configs that differ in a setting", remedy))


def _short(path: Path) -> str:
    return f"{path[0]}[{path[1]}]"


def _warn_arguments(engine: EngineIn, entries: list[tuple[Path, ConfigIn]], reading: _Reading) -> None:
    sources: list[tuple[Path, dict[str, Any]]] = [(("engine", "args"), engine.args)]
    sources += [((*path, "args"), entry.args) for path, entry in entries]
    for path, args in sources:
        for name, value in args.items():
            if isinstance(value, str) and value.lower() in _WORDS_THAT_YAML_ONCE_READ:
                reading.warnings.append(((*path, name), f'passes the word "{value}" on; a bare flag is `true`'))


# --- probe, schedule, production ---------------------------------------------------------------------------------


def _probe(raw: Any, reading: _Reading) -> ProbeSpec | None:
    stand_ins = {"concurrency": [1], "temperature": [1.0]}
    section = reading.section(ProbeIn, raw, ("probe",), stand_ins)
    if section is None:
        return None
    if section.repeats < section.boots:
        found = f"{section.repeats} repeats for {section.boots} boots"
        remedy = "Repeats are spread over the boots of a config: raise `repeats` or lower `boots`."
        reading.mistakes.append(Mistake(("probe", "repeats"), found, "repeats >= boots", remedy))
    if section.request_timeout <= section.window:
        text = "is not longer than the window: long requests would be cut by the client"
        reading.warnings.append((("probe", "request_timeout"), text))
    given = {name: getattr(section, name) for name in ProbeIn.model_fields}
    given["sampling"] = _sampling(section.sampling)
    given["prefill"] = _prefill(section.prefill)
    given["single_batch"] = _single_batch(section.single_batch)
    _check_load(section, reading)
    for name in ("window", "warmup", "request_timeout"):
        given[name] = Seconds(float(given[name]))
    return ProbeSpec(**given)


def _sampling(section: SamplingIn) -> SamplingSpec:
    return SamplingSpec(**{name: getattr(section, name) for name in SamplingIn.model_fields})


def _prefill(section: PrefillIn | None) -> PrefillSpec | None:
    if section is None:
        return None
    first, *others = (Tokens(length) for length in section.tokens)
    return PrefillSpec(tokens=first, repeats=section.repeats, others=tuple(others), under_load=section.under_load or 0)


def _single_batch(section: SingleBatchIn | None) -> SingleBatchSpec | None:
    if section is None:
        return None
    return SingleBatchSpec(**{name: getattr(section, name) for name in SingleBatchIn.model_fields})


def _check_load(section: ProbeIn, reading: _Reading) -> None:
    """Check what the load's keys say of each other."""
    for key in ("ca", "http2"):
        if getattr(section, key) and section.through is None:
            text = "is for the proxy of `through`, and there is none: the engine itself is asked by plain HTTP/1.1"
            reading.warnings.append((("probe", key), text))
    sampling = section.sampling
    if sampling.min_tokens is not None and sampling.min_tokens > sampling.max_tokens:
        found = f"min_tokens {sampling.min_tokens} with max_tokens {sampling.max_tokens}"
        reading.mistakes.append(
            Mistake(("probe", "sampling", "min_tokens"), found, "min_tokens <= max_tokens", "Raise max_tokens.")
        )


def _with_engine_key(probe: ProbeSpec, configs: tuple[EngineConfig, ...]) -> ProbeSpec:
    """An engine that is started with an API key is asked with the same one, unless the file names another."""
    keys = {config.engine.env.get("VLLM_API_KEY") for config in configs}
    only = next(iter(keys)) if len(keys) == 1 else None
    if probe.api_key is None and probe.through is None and isinstance(only, SecretRef):
        return replace(probe, api_key=only)
    return probe


def _check_feasible(configs: tuple[EngineConfig, ...], probe: ProbeSpec, reading: _Reading) -> None:
    found = feasible(configs, probe)
    reading.mistakes += found.mistakes
    reading.warnings += found.warnings


def _check_api(configs: tuple[EngineConfig, ...], probe: ProbeSpec, reading: _Reading) -> None:
    kinds = {config.engine.kind for config in configs}
    if probe.api == "generate" and kinds != {"sglang"}:
        remedy = "Write `api: completions`: the same prompts, on an endpoint that both engines have."
        reading.mistakes.append(Mistake(("probe", "api"), "generate", "an API of the engine", remedy))


def _schedule(raw: Any, reading: _Reading) -> Schedule | None:
    if raw is None:
        return None
    section = reading.section(ScheduleIn, raw, ("schedule",))
    if section is None:
        return None
    return Schedule(
        cron=section.cron,
        timezone=section.timezone or Schedule.timezone,
        until=section.until,
        priority=section.priority,
        names_zone=section.timezone is not None,
    )


def _production(raw: Any, reading: _Reading) -> Production | None:
    if raw is None:
        return None
    section = reading.section(ProductionIn, raw, ("production",))
    if section is None:
        return None
    production = Production(
        container=section.container,
        url=section.url,
        ready_timeout=Seconds(section.ready_timeout),
        idle_for=None if section.idle_for is None else Seconds(section.idle_for),
        idle_limit=Seconds(section.idle_limit),
    )
    if production.must_idle > production.idle_limit:
        found = f"idle_limit {production.idle_limit:g} s with idle_for {production.must_idle:g} s"
        remedy = "Raise `idle_limit`, or lower `idle_for` (0 does not ask)."
        reading.mistakes.append(Mistake(("production", "idle_limit"), found, "idle_limit >= idle_for", remedy))
    return production
