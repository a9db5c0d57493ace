"""From sections of a sweep file to engine configs: full factorial grids, less what is excluded.

A grid is a full factorial because effects interact: `block` alone and `probabilistic` alone say nothing of both together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nightsweep.plan import names
from nightsweep.plan.fingerprint import engine_document, fingerprint, with_prompts_hash, with_speculation
from nightsweep.plan.mistakes import Mistake, Path, Refused, nearest, shown
from nightsweep.plan.model import ContainerSpec, EngineConfig, EngineSpec, EnvValue, SecretRef
from nightsweep.plan.settings_in import GRID_WORDS, MAX_COMBINATIONS
from nightsweep.units import Seconds

if TYPE_CHECKING:
    from nightsweep.plan.schema import ConfigIn, EngineIn

__all__ = ["Expansion", "expand", "with_prompts_hash"]

_SIMULATOR = "nightsweep.simulator"
_DEFAULT_COMMAND: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("vllm", "docker"): (),  # the image's entry point is `vllm serve`
    ("vllm", "process"): ("vllm", "serve"),
    ("sglang", "docker"): ("python3", "-m", "sglang.launch_server"),
    ("sglang", "process"): ("python3", "-m", "sglang.launch_server"),
}
# Arguments that are secrets, and the variables from which vLLM takes them as well: a command line is stored, a variable is not.
_SECRET_ARGUMENTS = {"api-key": "VLLM_API_KEY", "hf-token": "HF_TOKEN"}
_OVERRIDES = frozenset({"args", "env", "image", "model", "model_revision", "command", "container"})
_STARTERS = {"vllm": ("method", "model"), "sglang": ("algorithm",)}


@dataclass
class Expansion:
    """What an entry of `configs` gives: its configs, and what is to be said of it."""

    configs: list[EngineConfig] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    warnings: list[tuple[Path, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Base:
    """An engine spec before the grid, with its part of the fingerprint's document: most configs of a file share it."""

    spec: EngineSpec
    document: Mapping[str, Any]


def default_command(kind: str, host: str) -> tuple[str, ...]:
    """Return what is executed before an engine's own arguments where a sweep file does not say."""
    return _DEFAULT_COMMAND[kind, host]


def base_of(engine: EngineIn, entry: ConfigIn | None = None) -> Base:
    """Return the spec of the file's `engine` section, with what an entry overrides."""
    spec = _hide_secrets(_base_spec(engine, entry))
    return Base(spec=spec, document=engine_document(spec))


def expand(engine: EngineIn, entry: ConfigIn, *, path: Path, plain: Base) -> Expansion:
    """Return the configs of one entry.

    Args:
        engine: The file's `engine` section, which the entry overrides.
        path: Where the entry stands in the file.
        plain: `base_of(engine)`, for entries that override nothing.
    """
    out = Expansion()
    count = math.prod(len(values) for values in entry.grid.values())
    if count > MAX_COMBINATIONS:
        out.mistakes.append(Mistake((*path, "grid"), f"{count:,} combinations", f"at most {MAX_COMBINATIONS:,}"))
        return out
    base = base_of(engine, entry) if _OVERRIDES & entry.model_fields_set else plain
    speculative = dict(entry.speculative or {})
    _check_name(entry, base.spec, speculative, path, out)
    _check_exclude(entry, speculative, path, out)
    if out.mistakes:
        return out
    for combination in _kept(entry, speculative):
        out.configs.append(_config(entry.name, base, speculative, combination))
    if not out.configs:
        remedy = "Drop an entry of `exclude`, or widen the grid."
        out.mistakes.append(
            Mistake((*path, "exclude"), "an exclusion of every combination", "one that leaves some", remedy)
        )
    _check_configs(engine, entry, path, out)
    return out


def _base_spec(engine: EngineIn, entry: ConfigIn | None) -> EngineSpec:
    own = {name: getattr(entry, name) for name in _OVERRIDES} if entry is not None else dict.fromkeys(_OVERRIDES)
    sections = [section for section in (engine.container, own["container"]) if section is not None]
    merged = {key: getattr(section, key) for section in sections for key in section.model_fields_set}
    command = own["command"] if own["command"] is not None else engine.command
    if command is None:
        command = () if merged.get("entrypoint") else default_command(engine.kind, engine.host)
    model = own["model"] or engine.model or ""
    args, environment = {**engine.args, **(own["args"] or {})}, {**engine.env, **(own["env"] or {})}
    return EngineSpec(
        kind=engine.kind,
        host=engine.host,
        model=model,
        served_name=engine.served_name or model,
        image=own["image"] or engine.image,
        command=command,
        args={name: value for name, value in args.items() if value is not None},
        env={name: value for name, value in environment.items() if value is not None},
        container=ContainerSpec(**merged),
        port=engine.port,
        boot_timeout=Seconds(engine.boot_timeout),
        stop_grace=Seconds(engine.stop_grace),
        model_revision=own["model_revision"] or (None if own["model"] else engine.model_revision),
        simulated=engine.simulated or any(_SIMULATOR in word for word in command),
        drop_page_cache=engine.drop_page_cache,
    )


def _config(template: str, base: Base, speculative: Mapping[str, Any], combination: Mapping[str, Any]) -> EngineConfig:
    own = {k.removeprefix("speculative."): value for k, value in combination.items() if _is_speculative(k)}
    settings = {key: value for key, value in {**speculative, **own}.items() if value is not None}
    spec = _hide_secrets(_with_grid(base.spec, combination, own=own))
    engine = base.document if spec is base.spec else engine_document(spec)
    document = with_speculation(engine, settings)
    known = {**_known_settings(spec, settings), **combination} if "{" in template else {}
    return EngineConfig(
        name=names.filled(template, known),
        engine=spec,
        speculative=settings or None,
        document=document,
        fingerprint=fingerprint(document),
        grid_values=dict(combination),
    )


def _is_speculative(key: str) -> bool:
    return key.startswith("speculative.") or ("." not in key and key not in GRID_WORDS)


def _by_grid_key(speculative: Mapping[str, Any]) -> dict[str, Any]:
    """Return speculative settings by the keys that a grid has for them: the draft's `model` is not the target's."""
    return {f"speculative.{key}" if key in GRID_WORDS else key: value for key, value in speculative.items()}


def _with_grid(base: EngineSpec, combination: Mapping[str, Any], *, own: Mapping[str, Any]) -> EngineSpec:
    if len(own) == len(combination):
        return base
    args = {**base.args, **{key[5:]: value for key, value in combination.items() if key.startswith("args.")}}
    env: dict[str, EnvValue | None] = {**base.env}
    env |= {key[4:]: value for key, value in combination.items() if key.startswith("env.")}
    model = combination.get("model", base.model)
    return replace(
        base,
        args={name: value for name, value in args.items() if value is not None},
        env={name: value for name, value in env.items() if value is not None},
        image=combination.get("image", base.image),
        model=model,
        served_name=model if base.served_name == base.model else base.served_name,
        model_revision=base.model_revision if model == base.model else None,
    )


def _hide_secrets(spec: EngineSpec) -> EngineSpec:
    moved = {
        _SECRET_ARGUMENTS[name]: value
        for name, value in spec.args.items()
        if isinstance(value, SecretRef) and spec.kind == "vllm" and name in _SECRET_ARGUMENTS
    }
    if not moved:
        return spec
    left = {name: value for name, value in spec.args.items() if _SECRET_ARGUMENTS.get(name) not in moved}
    return replace(spec, args=left, env={**spec.env, **moved})


def _known_settings(spec: EngineSpec, speculative: Mapping[str, Any]) -> dict[str, Any]:
    known = _by_grid_key(speculative)
    known |= {f"args.{name}": value for name, value in spec.args.items()}
    known |= {f"env.{name}": value for name, value in spec.env.items() if isinstance(value, str)}
    return known | {"image": spec.image, "model": spec.model}


# --- exclusion ---------------------------------------------------------------------------------------------------


def _combinations(entry: ConfigIn) -> Iterator[dict[str, Any]]:
    keys = tuple(entry.grid)
    for values in itertools.product(*entry.grid.values()):
        yield dict(zip(keys, values, strict=True))


def _kept(entry: ConfigIn, speculative: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for combination in _combinations(entry):
        if not any(_matches(excluded, {**_by_grid_key(speculative), **combination}) for excluded in entry.exclude):
            yield combination


def _matches(excluded: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    return all(_equals(wanted, settings.get(key)) for key, wanted in excluded.items())


def _equals(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, list) and not isinstance(value, list):
        return any(_equals(one, value) for one in wanted)
    return bool(wanted == value) and isinstance(wanted, bool) == isinstance(value, bool)


def _check_exclude(entry: ConfigIn, speculative: Mapping[str, Any], path: Path, out: Expansion) -> None:
    fixed = _by_grid_key(speculative)
    known = {*entry.grid, *fixed}
    for index, excluded in enumerate(entry.exclude):
        unknown = [key for key in excluded if key not in known]
        for key in unknown:
            allowed = "keys of this config's grid: " + (", ".join(entry.grid) or "it has none")
            out.mistakes.append(Mistake((*path, "exclude", index, key), "an unknown key", allowed, nearest(key, known)))
        if not unknown and not any(_matches(excluded, {**fixed, **one}) for one in _combinations(entry)):
            text = ", ".join(f"{key}: {shown(value)}" for key, value in excluded.items())
            out.warnings.append(((*path, "exclude", index), f"matches no combination ({text}); nothing is dropped"))


# --- checks ------------------------------------------------------------------------------------------------------


def _check_name(entry: ConfigIn, base: EngineSpec, speculative: Mapping[str, Any], path: Path, out: Expansion) -> None:
    if "{" not in entry.name and "}" not in entry.name:
        return
    known = {*_known_settings(base, speculative), *entry.grid}
    try:
        names.check(entry.name, known=known)
    except Refused as refused:
        found = refused.found or shown(entry.name)
        out.mistakes.append(Mistake((*path, "name"), found, refused.allowed, refused.remedy))


def _check_configs(engine: EngineIn, entry: ConfigIn, path: Path, out: Expansion) -> None:
    _check_unique(entry, path, out)
    if not out.configs:
        return
    first = out.configs[0].engine
    _check_speculation(engine.kind, entry, path, out)
    _check_secrets(path, entry, first, out)
    _check_host(engine, entry, first, path, out)
    for key in entry.grid:
        if key.replace("_", "-") in first.args and "." not in key:
            argument = key.replace("_", "-")
            text = f"is a speculative key; for the engine's argument write args.{argument}"
            out.warnings.append(((*path, "grid", key), text))


def _check_unique(entry: ConfigIn, path: Path, out: Expansion) -> None:
    seen: dict[str, int] = {}
    for config in out.configs:
        seen[config.name] = seen.get(config.name, 0) + 1
    twice = next((name for name, count in seen.items() if count > 1), None)
    if twice is not None:
        taken = names.placeholders(entry.name)
        missing = " ".join(f"{{{key}}}" for key, values in entry.grid.items() if key not in taken and len(values) > 1)
        found = f"one name for {seen[twice]} configs ({shown(twice)})"
        out.mistakes.append(Mistake((*path, "name"), found, "a name for each config", f"Put {missing} into the name."))


def _check_speculation(kind: str, entry: ConfigIn, path: Path, out: Expansion) -> None:
    wanted = _STARTERS[kind]
    bad = next((c for c in out.configs if c.speculative and not set(wanted) & set(c.speculative)), None)
    if bad is None:
        return
    place = "speculative" if entry.speculative else "grid"
    remedy = "Engine arguments in a grid are written args.NAME." if place == "grid" else ""
    if kind == "sglang" and "method" in (bad.speculative or {}):
        remedy = "SGLang's word for `method` is `algorithm` (EAGLE, NEXTN, NGRAM, DFLASH, DSPARK, ...)."
    found = f"speculative settings without {' or '.join(wanted)}"
    out.mistakes.append(Mistake((*path, place), found, f"settings with {' or '.join(wanted)}", remedy))


def _check_secrets(path: Path, entry: ConfigIn, spec: EngineSpec, out: Expansion) -> None:
    for name, value in spec.args.items():
        if isinstance(value, SecretRef):
            place: Path = (*path, "args", name) if name in entry.args else ("engine", "args", name)
            remedy = "Command lines are stored: leave it out, or use a variable that the engine reads."
            out.mistakes.append(Mistake(place, "a secret on the command line", "arguments without secrets", remedy))


def _check_host(engine: EngineIn, entry: ConfigIn, spec: EngineSpec, path: Path, out: Expansion) -> None:
    if not spec.model:
        out.mistakes.append(Mistake(("engine", "model"), "nothing", "a model", "Add `model: ORG/NAME` or a path."))
    if engine.host == "docker":
        if spec.image is None:
            remedy = "Add `image: vllm/vllm-openai:v0.28.0`, or set `host: process`."
            out.mistakes.append(Mistake(("engine", "image"), "nothing", "an image; host docker needs one", remedy))
        return
    for key in ("image", "container"):
        place: Path = ("engine", key) if key in engine.model_fields_set else (*path, key)
        given = key in engine.model_fields_set or key in entry.model_fields_set or key in entry.grid
        if given:
            remedy = "Set `host: docker`, or leave it out."
            out.mistakes.append(Mistake(place, f"`{key}` for a process", "settings of a process", remedy))
