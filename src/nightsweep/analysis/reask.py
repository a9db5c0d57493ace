"""The sweep file that asks a questioned decision again, with the fewest cells that can answer it.

Every value of what was decided, under the changed premise: an effect that was nothing before may be the answer now. Beside
them the chosen config and the fallback as they were, for what the change itself brings; only in the cells that counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from nightsweep.analysis.import_file import HEAD, NO_IMAGE, OWED
from nightsweep.analysis.premises import CONFIG, PRODUCTION, Change, Decision, Now
from nightsweep.analysis.reask_repeats import Asked, repeats_of
from nightsweep.analysis.traffic import GENERATION, JUDGED, PROMPT
from nightsweep.errors import CannotAskAgain, InvalidPlan
from nightsweep.plan import yamltree
from nightsweep.plan.expand import base_of
from nightsweep.plan.model import EngineConfig, EngineSpec, SecretRef, SweepPlan
from nightsweep.plan.schema import EngineIn
from nightsweep.plan.sweepfile import load
from nightsweep.plan.words import SINGLE_BATCH, UNKNOWN_TEMPERATURE, WHOLE_RUN

OF_THE_IMAGE = ("engine_version", "image_digest", CONFIG + "image")
_KEPT = ("box", "production", "engine", "probe")
_SET = ("speculative.", "args.")
_DRAFTER = ("method", "algorithm")
_PROBE_DROPPED = ("prefill", "single_batch")
_NO_PART = ("control", "expect")
"""Sections about configs of the decision's sweep that the question does not need."""


@dataclass(frozen=True)
class Overrides:
    """The changed premises that a sweep file can set: speculative keys, engine arguments, image; None takes a key out."""

    speculative: Mapping[str, Any]
    args: Mapping[str, Any]
    image: str | None = None

    @property
    def words(self) -> str:
        """Them as part of a config's name."""
        image = {} if self.image is None else {"image": self.image}
        return ", ".join(f"{key}={value}" for key, value in {**self.speculative, **self.args, **image}.items())


def reask(decision: Decision, found: Sequence[Change], now: Now, *, plan: SweepPlan, file_text: str) -> str:
    """Return the text of the sweep file.

    Args:
        found: What changed; what of it was accepted is said, and not asked.
        plan: Of the decision's sweep; `file_text` is the file that it was read from.

    Raises:
        CannotAskAgain: A config of the decision is not in that file any more.
            Or nothing that changed can be asked in it, or what was written would be refused: that needs a hand.
    """
    accepted = [change for change in found if change.accepted is not None]
    found = [change for change in found if change.accepted is None]
    raw = yamltree.read(file_text).value
    engine = dict(raw["engine"])
    base = base_of(EngineIn.model_validate(engine)).spec
    barred = [_barred(change, decision, now, _config(plan, decision.chosen, decision)) for change in found]
    overrides = overrides_of([change for change, why in zip(found, barred, strict=True) if why is None], now, base)
    unasked = _unasked(found, barred, now, base)
    if unasked and len(unasked) == len(found):
        raise _cannot(decision, f"{'; '.join(unasked)}: write the file by hand")
    if overrides.image is not None:
        engine["image"] = overrides.image
    document = {key: raw[key] for key in _KEPT if key in raw}
    probe = {key: value for key, value in raw["probe"].items() if key not in _PROBE_DROPPED}
    if decision.evidence.kind == SINGLE_BATCH:
        probe["single_batch"] = raw["probe"].get("single_batch") or {"temperature": float(min(_temperatures(decision)))}
    document["engine"] = engine
    asked = _asked(decision, plan, base, overrides)
    document["configs"] = [one.entry for one in asked]
    concurrency, temperatures = sorted({streams for streams, _ in decision.places}), sorted(_temperatures(decision))
    probe |= {"concurrency": concurrency, "temperature": [float(temperature) for temperature in temperatures]}
    repeats, of_repeats = repeats_of(
        probe.get("repeats"), asked, decision=decision, plan=plan, cells=(concurrency, temperatures)
    )
    document["probe"] = probe | ({} if repeats is None else {"repeats": repeats})
    name = f"{decision.sweep_name}-again-{decision.decision_id}"
    body = yamltree.write({"name": name, **document})
    not_asked = (f"NOT ASKED HERE: {one}." for one in unasked)
    left_out = [key for key in _NO_PART if key in raw]
    no_part = [f"Left out, as no part of the question: {', '.join(left_out)}."] if left_out else []
    asks = _asks(decision, asked, overrides)
    head = (*_head(decision, found, accepted, asks), *_of_traffic(found), *not_asked, *of_repeats, *no_part)
    head += tuple(_beside(probe))
    head += tuple(_owed(file_text))
    text = "".join(f"# {_one_line(line)}\n" for line in head) + body
    again = _loaded(text, decision, source=f"{name}.yaml")
    if overrides.image is None:
        _check_as_it_was(decision, again)
    return text


def _cannot(decision: Decision, reason: str) -> CannotAskAgain:
    return CannotAskAgain(decision=decision.decision_id, sweep=decision.sweep_name, reason=reason)


def _loaded(text: str, decision: Decision, *, source: str) -> SweepPlan:
    """Return the plan that was written (raises CannotAskAgain with its mistakes: nobody has the file that they are in)."""
    try:
        return load(text, source=source)
    except InvalidPlan as error:
        problems = error.facts["problems"]
        said = "; ".join(str(problem).removeprefix(f"{source}:") for problem in problems)
        why = f"no sweep file can ask it under what changed: {said}; write one by hand"
        raise _cannot(decision, why) from error


def _unasked(found: Sequence[Change], barred: Sequence[str | None], now: Now, base: EngineSpec) -> list[str]:
    """Return the changes that the file cannot set and that do not hold on the box by themselves, with why."""
    said = []
    for change, why in zip(found, barred, strict=True):
        key = _key(change)
        if why is not None:
            said.append(f"{change.words}, {why}")
        elif key == "image" or (change.name in OF_THE_IMAGE and now.image is not None):
            if base.host != "docker":
                said.append(f"{change.words}, and its sweep starts a process (`host: process`), which has no image")
        elif key != change.name and not key.startswith(_SET):
            said.append(f"{change.words}, which is no setting that its configs can take over")
    return said


def _barred(change: Change, decision: Decision, now: Now, chosen: EngineConfig) -> str | None:
    """Return why a setting must not be taken over by every config, None where it may: it would level or break the question."""
    key = _key(change)
    if key != change.name and key in decision.factors:
        return "which the question itself is among"
    if change.name.startswith(f"{PRODUCTION}speculative."):
        own, its = chosen.speculative or {}, now.production or {}
        if any(own.get(word) != its.get(f"speculative.{word}") for word in _DRAFTER):
            return "and production drafts otherwise than what was chosen"
    return None


def _key(change: Change) -> str:
    """Return a changed setting's key; of what is none, its whole name."""
    return change.name.removeprefix(CONFIG).removeprefix(PRODUCTION)


def _owed(file_text: str) -> list[str]:
    """Return what a file that an import wrote does not know."""
    said = (OWED, NO_IMAGE) if file_text.startswith(HEAD) else ()
    return [one for one in said if one in file_text]


def _temperatures(decision: Decision) -> set[Decimal]:
    """Return the temperatures that it was decided at.

    Raises:
        CannotAskAgain: Nobody told them: its evidence was imported without.
    """
    known = {temperature for _, temperature in decision.places if temperature != UNKNOWN_TEMPERATURE}
    if not known:
        why = "its runs were imported without a temperature, so no file can ask it again: write one by hand"
        raise _cannot(decision, why)
    return known


def _check_as_it_was(decision: Decision, again: SweepPlan) -> None:
    """Refuse a file in which what was decided is another config than it was: it would compare something else."""
    there = {config.fingerprint for config in again.configs}
    for fingerprint, name in ((decision.chosen, decision.chosen_name), (decision.fallback, decision.fallback_name)):
        if fingerprint not in there:
            why = f"{name} cannot be written down again as it was: copy its entry by hand"
            raise _cannot(decision, why)


def _of_traffic(found: Sequence[Change]) -> list[str]:
    """Return what a person must do about other traffic: prompts and the length of answers stand for it."""
    lengths = {change.name: change.new for change in found if change.name in JUDGED}
    if not lengths:
        return []
    wanted = []
    if PROMPT in lengths:
        wanted.append(f"a JSONL file of prompts of about {lengths[PROMPT]:,.0f} tokens at `prompts`")
    if GENERATION in lengths:
        wanted.append(
            f"prompts and a `sampling.max_tokens` that give answers of about {lengths[GENERATION]:,.0f} tokens"
        )
    return [
        f"What stands for production's traffic is the probe's prompt set, which is as it was: put {' and '.join(wanted)},",
        "as what production is asked; without that this asks about the old traffic.",
    ]


def _beside(probe: Mapping[str, Any]) -> list[str]:
    """Return what must lie beside the file."""
    named = [str(probe[key]) for key in ("prompts", "ca") if "." in str(probe.get(key, ""))]
    return [f"Write this file where {one} is found from." for one in named if not one.startswith("/")]


def overrides_of(found: Sequence[Change], now: Now, base: EngineSpec) -> Overrides:
    """Return what of the changes a sweep file can set; what it cannot (a driver, prompts) holds on the box by itself."""
    speculative: dict[str, Any] = {}
    args: dict[str, Any] = {}
    image = None
    in_container = base.host == "docker"
    for change in found:
        key = _key(change)
        if change.name in OF_THE_IMAGE and in_container and now.image not in (None, base.image):
            image = now.image
        elif key == change.name:
            continue
        elif key.startswith("speculative."):
            speculative[key.removeprefix("speculative.")] = change.new
        elif key.startswith("args."):
            args[key.removeprefix("args.")] = change.new
        elif key == "image" and in_container and isinstance(change.new, str):
            image = change.new
    return Overrides(speculative, args, image)


NO_OVERRIDES = Overrides({}, {})


def _asked(decision: Decision, plan: SweepPlan, base: EngineSpec, overrides: Overrides) -> list[Asked]:
    """Return the file's configs: all that the question is among under the new premises, then what was decided as it was."""
    asked = [Asked(_entry(_config(plan, name, decision), base, overrides), name) for name in decision.evidence.configs]
    as_it_was = [
        Asked(_entry(_config(plan, name, decision), base, NO_OVERRIDES), name, as_it_was=True)
        for name in dict.fromkeys((decision.chosen, decision.fallback))
    ]
    return asked + [one for one in as_it_was if not any(_same(one.entry, other.entry) for other in asked)]


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return {**one, "name": ""} == {**other, "name": ""}


def _config(plan: SweepPlan, fingerprint: str, decision: Decision) -> EngineConfig:
    try:
        return plan.config(fingerprint)
    except KeyError:
        why = f"its file has no config {decision.evidence.configs.get(fingerprint, fingerprint[:12])} any more"
        raise _cannot(decision, why) from None


def entry_of(config: EngineConfig, *, file_text: str) -> dict[str, Any]:
    """Return a config as an entry of `configs` of the file that it is of: what it has besides the file's `engine`."""
    engine = EngineIn.model_validate(dict(yamltree.read(file_text).value["engine"]))
    return _entry(config, base_of(engine).spec, NO_OVERRIDES)


def _entry(config: EngineConfig, base: EngineSpec, overrides: Overrides) -> dict[str, Any]:
    """Return a config as an entry of `configs`, written out: what it has besides the file's engine, and the overrides."""
    drafts = bool(config.speculative)
    has_own_image = config.engine.image not in (None, base.image)
    image = overrides.image if has_own_image else None  # it gives way to the new one, which the file's engine has
    set_here = Overrides(overrides.speculative if drafts else {}, overrides.args, image)
    entry: dict[str, Any] = {"name": f"{config.name} ({set_here.words})" if set_here.words else config.name}
    entry["name"] = entry["name"].replace("{", "{{").replace("}", "}}")
    settings = {**(config.speculative or {}), **set_here.speculative}
    settings = {key: value for key, value in settings.items() if value is not None}
    parts = {
        "speculative": settings,
        "args": {**_moved(base.args, config.engine.args), **set_here.args},
        "env": _moved(base.env, config.engine.env),
        "container": _moved_fields(base, config.engine),
    }
    entry |= {key: value for key, value in parts.items() if value}
    for key in ("image", "model", "model_revision"):
        own = getattr(config.engine, key)
        if own != getattr(base, key) and own is not None and not (key == "image" and image is not None):
            entry[key] = own
    if config.engine.command != base.command:
        entry["command"] = list(config.engine.command)
    return entry


def _moved(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `own` has otherwise than `base`; null for what it has not."""
    moved = {key: value for key, value in own.items() if key not in base or base[key] != value}
    moved |= {key: None for key in base if key not in own}
    return {
        key: {"from_env": value.from_env} if isinstance(value, SecretRef) else value for key, value in moved.items()
    }


def _moved_fields(base: EngineSpec, own: EngineSpec) -> dict[str, Any]:
    moved = _moved(asdict(base.container), asdict(own.container))
    return {key: list(value) if isinstance(value, tuple) else value for key, value in moved.items()}


def _asks(decision: Decision, asked: Sequence[Asked], overrides: Overrides) -> list[str]:
    """Return what the file measures: which configs, on which image, and whether it is the kind of number that was decided on."""
    beside = [one for one in asked if one.as_it_was]
    as_it_was = ", and what was chosen as it was" if beside else ""
    lines = [f"Every value that the question is among under what changed{as_it_was}."]
    moved = [one.name for one in beside if "image" not in one.entry] if overrides.image is not None else []
    if moved:
        lines.append(f"As it was but for the image, which is {overrides.image} now: {', '.join(moved)}.")
    if decision.evidence.kind == WHOLE_RUN:
        lines.append(
            "It was decided on rates over whole runs of another client; this measures decode windows, which are higher:"
        )
        lines.append("hold them against each other, and not against those.")
    return lines


def _head(decision: Decision, found: Sequence[Change], accepted: Sequence[Change], asks: Sequence[str]) -> list[str]:
    """Return the comment above the file: why it is asked again."""
    lines = [
        f"Asks decision {decision.decision_id} again: {decision.question}",
        f"Chosen: {decision.chosen_name}; fallback: {decision.fallback_name} ({decision.decided:%Y-%m-%d}).",
        *(f"Changed: {change.words}" for change in found),
        *(f"Accepted, so not asked here: {change.words}: {change.accepted}" for change in accepted),
        *asks,
        "Check it, then: nightsweep plan THIS_FILE",
    ]
    if not found:
        nothing = "Nothing has changed that was not accepted" if accepted else "Nothing has changed"
        lines.insert(2, f"{nothing}: this repeats the evidence.")
    return lines


def _one_line(text: str) -> str:
    return " ".join(text.split())
