"""Equal content has one fingerprint, however it was written; different content has another."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightsweep.plan.fingerprint import canonical_json, config_document, fingerprint, with_prompts_hash
from nightsweep.plan.model import SecretRef
from nightsweep.plan.sweepfile import load
from tests.unit.plan.builders import a_night, a_plan

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def rewritten(value: Any, data: st.DataObject) -> Any:
    """Return the same content written otherwise: members shuffled, nulls added, whole numbers as fractions."""
    if isinstance(value, dict):
        members = data.draw(st.permutations(list(value.items())))
        out = {key: rewritten(member, data) for key, member in members}
        if data.draw(st.booleans()):
            out.setdefault("an unset key", None)
        return out
    if isinstance(value, list):
        return [rewritten(member, data) for member in value]
    if isinstance(value, int) and not isinstance(value, bool) and data.draw(st.booleans()):
        return float(value)
    return -0.0 if value == 0 and isinstance(value, float) else value


@given(DOCUMENTS, st.data())
def test_key_order_unset_keys_and_1_or_1_0_make_no_difference(document: Any, data: st.DataObject) -> None:
    assert fingerprint(rewritten(document, data)) == fingerprint(document)


@given(DOCUMENTS)
def test_canonical_json_is_json_of_the_same_content_and_canonical_itself(document: Any) -> None:
    text = canonical_json(document)

    again = json.loads(text)
    assert canonical_json(again) == text


@given(DOCUMENTS, DOCUMENTS)
def test_two_contents_share_a_fingerprint_only_when_their_canonical_json_is_one(one: Any, other: Any) -> None:
    assert (fingerprint(one) == fingerprint(other)) == (canonical_json(one) == canonical_json(other))


def test_canonical_json_is_what_the_rules_say() -> None:
    document = {"b": 1.0, "a": [None, -0.0, True, "é\n"], "unset": None, "c": {"y": 0.7, "x": 1e21}}

    assert canonical_json(document) == '{"a":[null,0,true,"é\\n"],"b":1,"c":{"x":1000000000000000000000,"y":0.7}}'


def test_true_is_not_one() -> None:
    assert fingerprint({"a": True}) != fingerprint({"a": 1})


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_json_number_is_an_error(number: float) -> None:
    with pytest.raises(ValueError, match="not a JSON number"):
        canonical_json({"a": [number]})


@pytest.mark.parametrize("value", [{"a": object()}, {1: "a"}, {"a": SecretRef("X")}, {"a": {1, 2}}])
def test_what_is_no_json_is_an_error_and_not_some_text(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{max-model-len: 8192}", "{max_model_len: 8192}"),
        ("{max-model-len: 8192}", "{--max-model-len: 8192.0}"),
        ("{max-model-len: 8192}", "{max-model-len: '8192'}"),
        ("{max-model-len: 8192}", '{"max-model-len": 8192, enforce-eager: null}'),
        ("boot_timeout: 20m", "boot_timeout: 5m\n  port: 9000\n  stop_grace: 3"),
        ("boot_timeout: 20m", "served_name: alias"),
        ("boot_timeout: 20m", "container: {init: true, volumes: []}"),
        ("{HF_TOKEN: {from_env: HF_TOKEN}}", "{HF_TOKEN: {from_env: OTHER}}"),
        ("name: plain", "name: renamed"),
        ("speculative: {method: dflash, model: org/draft}", "speculative: {model: org/draft, method: 'dflash'}"),
    ],
)
def test_what_no_number_depends_on_leaves_configs_the_same(old: str, new: str) -> None:
    assert [c.fingerprint for c in a_plan((old, new)).configs] == [c.fingerprint for c in a_plan().configs]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("8192", "8193"),
        ("v0.28.0", "v0.29.0"),
        ("org/target", "org/other"),
        ("boot_timeout: 20m", "model_revision: abc"),
        ("boot_timeout: 20m", "container: {gpus: all}"),
        ("boot_timeout: 20m", "command: [vllm, serve]"),
        ("{HF_TOKEN: {from_env: HF_TOKEN}}", "{}"),
        ("{HF_TOKEN: {from_env: HF_TOKEN}}", "{HF_TOKEN: {from_env: HF_TOKEN}, VLLM_X: a}"),
        ("{max-model-len: 8192}", "{max-model-len: 8192, enforce-eager: true}"),
    ],
)
def test_what_a_number_depends_on_makes_other_configs(old: str, new: str) -> None:
    assert not {c.fingerprint for c in a_plan((old, new)).configs} & {c.fingerprint for c in a_plan().configs}


def test_the_fingerprint_is_the_hash_of_the_document() -> None:
    for config in a_plan().configs:
        assert config.fingerprint == fingerprint(config.document)
        assert config.document == config_document(config.engine, config.speculative)


def test_a_document_holds_a_secret_s_variable_and_not_where_it_comes_from() -> None:
    document = a_plan(("{from_env: HF_TOKEN}", "{from_env: MINE}")).configs[0].document

    assert document["secrets"] == ["HF_TOKEN"]
    assert "MINE" not in canonical_json(document)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: depth", "name: other\nbox: spark"),
        ("repeats: 3", "repeats: 6\n  boots: 2\n  max_attempts: 5"),
        ("name: depth", "name: depth\nproduction: {container: x}"),
        ('until: "07:00"', 'until: "06:00"'),
        ("[1, 4]", "[4, 1]"),
    ],
)
def test_raised_repeats_and_another_night_go_on_with_the_same_sweep(old: str, new: str) -> None:
    assert a_plan((old, new)).fingerprint == a_plan().fingerprint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("window: 40s", "window: 41s"),
        ("[0.7, 1.0]", "[0.7]"),
        ("[1, 4]", "[1, 4, 8]"),
        ("[4, 5]", "[4, 6]"),
        ("repeats: 3", "repeats: 3\n  prompts: prose"),
        ("repeats: 3", "repeats: 3\n  through: http://a/v1"),
        ("repeats: 3", "repeats: 3\n  sampling: {top_p: 0.9}"),
        ("repeats: 3", "repeats: 3\n  prefill: {tokens: 100}"),
    ],
)
def test_other_conditions_or_cells_are_another_sweep(old: str, new: str) -> None:
    assert a_plan((old, new)).fingerprint != a_plan().fingerprint


@settings(max_examples=20)
@given(st.text("0123456789abcdef", min_size=4, max_size=8), st.text("0123456789abcdef", min_size=4, max_size=8))
def test_the_prompts_content_is_a_condition_of_the_sweep(one: str, other: str) -> None:
    plan = a_plan()
    first, second = with_prompts_hash(plan, one), with_prompts_hash(plan, other)

    assert first.probe.prompts_hash == one
    assert (first.fingerprint == second.fingerprint) == (one == other)
    assert replace(first, probe=plan.probe, fingerprint=plan.fingerprint) == plan


def test_a_prompt_set_of_the_same_content_under_another_name_is_the_same_condition() -> None:
    one = with_prompts_hash(a_plan(), "abc")
    other = with_prompts_hash(a_plan(("repeats: 3", "repeats: 3\n  prompts: mine.jsonl")), "abc")

    assert one.fingerprint == other.fingerprint


def test_what_came_later_leaves_the_fingerprint_of_older_plans_as_it_was() -> None:
    assert a_plan().fingerprint == "3a38cab886ad45550b4de93e4de51dff44045a0f12874bd783a637c446640e9d"
    assert load(a_night()).fingerprint == "4d3db95bc83218c912d141a4803799139d60bf4b5901b30e71369ee79f7aab79"


@pytest.mark.parametrize(
    "written",
    [
        "prefill: {tokens: [1000, 2000]}",
        "prefill: {tokens: 1000, under_load: 2}",
        "single_batch: {}",
        "single_batch: {input: 512}",
        "single_batch: {temperature: 0.7}",
        "http2: true",
        "sampling: {min_tokens: 5}",
    ],
)
def test_what_moves_numbers_or_adds_some_makes_another_sweep(written: str) -> None:
    others = [a_plan(("  repeats: 3\n", f"  repeats: 3\n  {one}\n")) for one in ("prefill: {tokens: 1000}", written)]
    assert len({a_plan().fingerprint, *(plan.fingerprint for plan in others)}) == 3


@pytest.mark.parametrize("written", ["single_batch: {runs: 9}", "single_batch: {}"])
def test_more_runs_go_on_with_the_same_sweep(written: str) -> None:
    plan = a_plan(("  repeats: 3\n", f"  repeats: 3\n  {written}\n"))
    assert plan.fingerprint == a_plan(("  repeats: 3\n", "  repeats: 3\n  single_batch: {runs: 2}\n")).fingerprint
