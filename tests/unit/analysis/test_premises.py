"""Which changes question a decision, and which do not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from nightsweep.analysis.comparing import BOOTS_UNKNOWN
from nightsweep.analysis.evidence import Choice, Material, decide
from nightsweep.analysis.premises import (
    Accepted,
    CellEvidence,
    Change,
    Decision,
    Drafting,
    Evidence,
    Known,
    Now,
    changes,
    held_fixed,
    state_of,
)
from nightsweep.analysis.sides import Documents
from nightsweep.analysis.traffic import Recorded, counted, counted_said
from nightsweep.analysis.values import WindowRow
from nightsweep.errors import NothingToDecide
from nightsweep.measurement.traffic import Traffic
from tests.unit.analysis.builders import COLD, EVENING, a_boot, a_sweep, a_window

CHOSEN = {
    "engine": "vllm",
    "model": "org/m",
    "speculative.method": "dflash",
    "speculative.model": "org/draft",
    "speculative.num_speculative_tokens": 5,
}
PREMISES = {
    "config.engine": "vllm",
    "config.model": "org/m",
    "config.speculative.method": "dflash",
    "config.speculative.model": "org/draft",
    "box.driver": "580",
    "weights_gib": 24.92,
}


def a_decision(**facts: Any) -> Decision:
    cell = CellEvidence("five", "k=5", 1, COLD, (1, 2), 1, 28.0, 27.0, 29.0)
    given: dict[str, Any] = {
        "decision_id": 1,
        "sweep_id": 1,
        "sweep_name": "depth",
        "box": "spark-1",
        "simulated": False,
        "question": "five is the block",
        "factors": ("speculative.num_speculative_tokens",),
        "chosen": "five",
        "chosen_name": "k=5",
        "fallback": "mtp",
        "fallback_name": "mtp",
        "evidence": Evidence((cell,), {"five": "k=5", "seven": "k=7"}, container="vllm"),
        "premises": PREMISES,
        "decided": EVENING,
    }
    return Decision(**{**given, **facts})


def newer(sweep: int = 2, **settings: Any) -> Drafting:
    changed = {f"speculative.{key}": value for key, value in settings.items()}
    return Drafting(sweep, "later", "k=7", {**CHOSEN, **changed})


def changed(now: Now, decision: Decision | None = None) -> dict[str, tuple[Any, Any]]:
    found = changes(decision or a_decision(), now, chosen_settings=CHOSEN)
    return {change.name: (change.old, change.new) for change in found}


def test_another_drafting_rule_in_a_newer_sweep_is_a_changed_premise() -> None:
    found = changed(Now(newer=(newer(draft_sample_method="probabilistic"),)))
    assert found == {"config.speculative.draft_sample_method": (None, "probabilistic")}


def test_another_draft_is_a_changed_premise_and_another_value_of_the_factor_is_not() -> None:
    assert changed(Now(newer=(newer(num_speculative_tokens=7),))) == {}
    assert changed(Now(newer=(newer(model="org/draft-2"),))) == {
        "config.speculative.model": ("org/draft", "org/draft-2")
    }


@pytest.mark.parametrize("settings", [{"draft_sample_method": "greedy"}, {"rejection_sample_method": "standard"}])
def test_a_default_that_is_written_down_changes_nothing(settings: dict[str, str]) -> None:
    assert changed(Now(newer=(newer(**settings),))) == {}


def test_another_method_or_model_is_another_question() -> None:
    other = newer(method="mtp", draft_sample_method="probabilistic")
    strange = replace(newer(draft_sample_method="probabilistic"), settings={**CHOSEN, "model": "org/other"})
    assert changed(Now(newer=(other, strange))) == {}


def test_of_a_newer_sweep_the_config_that_departs_most_counts_and_the_newest_sweep_first() -> None:
    both = newer(3, draft_sample_method="probabilistic", rejection_sample_method="block")
    one = newer(3, rejection_sample_method="synthetic")
    old = newer(2, draft_sample_method="gumbel")
    found = changed(Now(newer=(one, both, old)))
    assert found["config.speculative.draft_sample_method"] == (None, "probabilistic")
    assert found["config.speculative.rejection_sample_method"] == (None, "block")


def test_where_the_method_itself_was_decided_the_chosen_ones_drafting_rule_is_looked_at() -> None:
    premises = {key: value for key, value in PREMISES.items() if not key.startswith("config.speculative.")}
    factors = ("speculative.method", "speculative.model", "speculative.num_speculative_tokens")
    decision = a_decision(premises=premises, factors=factors)
    found = changed(Now(newer=(newer(draft_sample_method="probabilistic"),)), decision)
    assert found == {"config.speculative.draft_sample_method": (None, "probabilistic")}


def test_weights_that_differ_by_rounding_are_the_same_weights() -> None:
    assert changed(Now(values={"weights_gib": Known(24.93, "boot 9")})) == {}
    assert "weights_gib" in changed(Now(values={"weights_gib": Known(22.0, "boot 9")}))


BY_TRAFFIC = {**PREMISES, "traffic.prompt_tokens": 1200.0, "traffic.generation_tokens": 300.0, "traffic.streams": 0.5}


@pytest.mark.parametrize(
    ("prompt", "generation", "questioned"),
    [
        (1200.0, 300.0, []),
        (1800.0, 200.0, []),  # at the very factor, either way
        (1801.0, 300.0, ["traffic.prompt_tokens"]),
        (799.0, 300.0, ["traffic.prompt_tokens"]),
        (1300.0, 451.0, ["traffic.generation_tokens"]),
        (8000.0, 20.0, ["traffic.prompt_tokens", "traffic.generation_tokens"]),
        (1200.0, 0.0, ["traffic.generation_tokens"]),
    ],
)
def test_traffic_is_other_traffic_once_a_mean_length_is_half_as_long_again_and_no_sooner(
    prompt: float, generation: float, questioned: list[str]
) -> None:
    now = {"traffic.prompt_tokens": Known(prompt, "a night"), "traffic.generation_tokens": Known(generation, "a night")}
    assert list(changed(Now(values=now), a_decision(premises=BY_TRAFFIC))) == questioned
    assert changed(Now(values=now)) == {}, "of a decision that knew none, nothing"


def test_accepted_traffic_may_drift_as_traffic_does_and_another_mean_asks_again() -> None:
    looked = {"traffic.prompt_tokens": Accepted(4000.0, "asked again with such prompts", EVENING)}
    decision = a_decision(premises=BY_TRAFFIC, accepted=looked)
    for mean, state in ((4000.0, "standing"), (3500.0, "standing"), (6100.0, "questioned"), (1250.0, "standing")):
        found = changes(decision, Now(values={"traffic.prompt_tokens": Known(mean, "x")}), chosen_settings=CHOSEN)
        assert state_of(decision, found) == state, mean


def test_what_was_no_premise_questions_nothing() -> None:
    assert changed(Now(values={"box.bios": Known("2.0", "box")})) == {}


def test_production_may_become_what_was_chosen() -> None:
    premises = {**PREMISES, "production.speculative.num_speculative_tokens": 3, "production.args.max-num-seqs": 16}
    decision = a_decision(premises=premises)
    same = {"speculative.num_speculative_tokens": 5, "args.max-num-seqs": 16}
    assert changed(Now(production=same), decision) == {}
    assert changed(Now(production={**same, "args.max-num-seqs": 32}), decision) == {
        "production.args.max-num-seqs": (16, 32)
    }
    assert changed(Now(production=None), decision) == {}


def test_an_accepted_change_holds_for_its_value_only() -> None:
    looked = {"box.driver": Accepted("590", "measured again", EVENING + timedelta(days=1))}
    decision = a_decision(accepted=looked)
    for value, state in (("590", "standing"), ("600", "questioned"), ("580", "standing")):
        found = changes(decision, Now(values={"box.driver": Known(value, "box")}), chosen_settings=CHOSEN)
        assert state_of(decision, found) == state


def test_a_retired_decision_stays_retired_whatever_changes() -> None:
    found = [Change("box.driver", "580", "590", "box")]
    assert state_of(a_decision(retired_why="asked again"), found) == "retired"


def test_what_is_equal_is_held_fixed_and_what_is_absent_somewhere_is_not() -> None:
    fixed, moved = held_fixed([{"a": 1, "b": 2, "c": [1]}, {"a": 1, "b": 3, "c": [1], "d": 4}])
    assert fixed == {"a": 1, "c": [1]}
    assert moved == {"b": ("2", "3"), "d": ("absent", "4")}


# --- from windows to a decision ----------------------------------------------------------------------------------


def material(*windows: WindowRow, **facts: Any) -> Material:
    configs = {
        name: {"engine": "vllm", "model": "org/m", "speculative": {"method": method, "num_speculative_tokens": k}}
        for name, method, k in (("five", "dflash", 5), ("seven", "dflash", 7), ("mtp", "mtp", 3))
    }
    conditions = {"cond-a": {"engine_version": "0.28.0"}, "cond-b": {"engine_version": "0.29.0"}}
    given: dict[str, Any] = {
        "sweep": a_sweep(),
        "windows": windows,
        "boots": [a_boot(config_fingerprint="five", weights=24.92)],
        "documents": Documents(conditions, configs, {}),
        "production": {"args.max-num-seqs": 16},
        "container": "vllm",
    }
    return Material(**{**given, **facts})


def of(config: str, *rates: float, first: int = 1, **facts: Any) -> list[WindowRow]:
    return [
        a_window(window_id=first + at, repeat=at, config=config, config_fingerprint=config, decode_rate=rate, **facts)
        for at, rate in enumerate(rates)
    ]


FIVE_OR_SEVEN = Choice("five", "mtp", None)


def test_evidence_has_windows_counts_and_how_the_choice_stands_to_the_runner_up() -> None:
    rows = [*of("five", 28.5, 28.6, 28.4), *of("seven", 26.0, 26.1, 25.9, first=10), *of("mtp", 20.8, first=20)]
    decision = decide(FIVE_OR_SEVEN, material(*rows), at=EVENING)
    assert decision.factors == ("speculative.num_speculative_tokens",)
    assert decision.question == "num_speculative_tokens: 5 or 7 (5 chosen)"
    assert decision.evidence.runner_up == "seven"
    assert decision.evidence.cells[0].windows == (1, 2, 3)
    assert "against seven at 1 stream, T=0.7: better" in decision.evidence.verdicts[0]
    assert decision.evidence.warnings == (
        BOOTS_UNKNOWN,  # each config was in one
        "20.8 rests on one run: measure it again (mtp at 1 stream, T=0.7)",
    )
    assert decision.places == [(1, Decimal("0.7"))]


def test_premises_are_what_all_of_the_evidence_shares_and_the_rest_is_said() -> None:
    rows = [*of("five", 28.5, 28.6), *of("seven", 26.0, 26.1, first=10, conditions="cond-b")]
    decision = decide(FIVE_OR_SEVEN, material(*rows), at=EVENING)
    assert decision.premises["config.speculative.method"] == "dflash"
    assert decision.premises["production.args.max-num-seqs"] == 16
    assert decision.premises["weights_gib"] == 24.92
    assert "engine_version" not in decision.premises
    assert decision.evidence.not_fixed["engine_version"] == ("0.28.0", "0.29.0")
    assert any("fallback was not measured" in warning for warning in decision.evidence.warnings)


def test_traffic_that_is_known_is_a_premise_with_how_it_was_counted() -> None:
    rows = [*of("five", 28.5, 28.6), *of("seven", 26.0, 26.1, first=10)]
    begun = EVENING - timedelta(hours=10)
    counts = {"requests": 3120, "prompt_tokens": 3_757_415.0, "generation_tokens": 967_200.0}
    traffic = Traffic(
        EVENING, since=begun, since_by="process", request_seconds=11160.0, generated_tokens=967_200.0, **counts
    )
    decision = decide(FIVE_OR_SEVEN, material(*rows, traffic=Recorded(7, "vllm", traffic)), at=EVENING)
    told = {name: value for name, value in decision.premises.items() if name.startswith("traffic.")}
    assert told == {"traffic.prompt_tokens": 1204.3, "traffic.generation_tokens": 310.0, "traffic.streams": 0.31}
    assert decision.evidence.traffic is not None
    assert counted_said(decision.evidence.traffic) == (
        f"mean of 3,120 finished requests of vllm, {begun:%Y-%m-%d %H:%M} to {EVENING:%Y-%m-%d %H:%M} UTC"
    )


@pytest.mark.parametrize(
    ("since", "by", "said"),
    [(None, None, "from its start, which nobody told, to"), (EVENING, "container", "as its container was started")],
)
def test_the_period_of_traffic_says_what_is_not_known_of_it(since: Any, by: str | None, said: str) -> None:
    traffic = Traffic(EVENING, since=since, since_by=by, requests=40, prompt_tokens=4e4, generation_tokens=8e3)
    assert said in counted_said(counted(Recorded(7, "vllm", traffic)))


def test_a_choice_from_one_config_is_none() -> None:
    with pytest.raises(NothingToDecide, match="no other config"):
        decide(FIVE_OR_SEVEN, material(*of("five", 28.5)), at=EVENING)


def test_a_choice_that_the_evidence_does_not_show_to_be_best_says_so() -> None:
    rows = [*of("five", 28.5, 24.0, 31.0), *of("seven", 27.0, 29.9, 26.0, first=10)]
    warnings = decide(FIVE_OR_SEVEN, material(*rows), at=EVENING).evidence.warnings
    assert any("not shown to be better than seven at 1 stream, T=0.7: undecided" in warning for warning in warnings)
