from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from nightsweep.simulator import speculative, tokenizer
from nightsweep.simulator.acceptance import NODES, Chain, scaled_to
from nightsweep.simulator.content import RING, answer_tokens, difficulty
from nightsweep.simulator.faults import KINDS, FaultSet, UnknownFault, catalogue, parse_fault
from nightsweep.simulator.kvpool import KvPool, block_hashes
from nightsweep.simulator.metrics import EngineMetrics
from nightsweep.simulator.profile import ProfileError, at, load_profile
from nightsweep.simulator.requests import Limits, Refused, read_ask
from nightsweep.simulator.settings import human_int, read_settings

LIMITS = Limits(("m",), 4096, speculating=True)


# --- tokenizer and text ------------------------------------------------------------------------------------------


@given(st.text())
def test_any_text_comes_back_from_its_tokens(text):
    ids = tokenizer.encode(text)
    assert all(0 <= token < tokenizer.VOCABULARY for token in ids)
    assert tokenizer.decode(ids) == text


def test_a_word_costs_about_as_many_tokens_as_with_a_real_tokenizer():
    text = "Write a Python function that parses a header line into a dict and returns the sorted keys."
    assert len(text.split()) <= len(tokenizer.encode(text)) <= 2 * len(text.split())


@given(st.integers(0, 10_000), st.integers(1, 2_000))
def test_answers_cut_from_the_ring_have_exactly_the_tokens_that_were_counted(start, count):
    text = RING.plain(start, count)
    assert len(tokenizer.encode(text)) == count
    assert json.loads(b'"' + RING.escaped(start, count) + b'"') == text


def test_difficulty_is_standard_normal_over_prompts():
    values = [difficulty(b"%d" % i) for i in range(4000)]
    mean = sum(values) / 4000
    assert abs(mean) < 0.05
    assert sum((v - mean) ** 2 for v in values) / 4000 == pytest.approx(1.0, abs=0.08)


def test_a_request_seed_changes_the_answer_and_nothing_else_does():
    same = {answer_tokens(b"k", mean=460, minimum=60) for _ in range(3)}
    assert len(same) == 1
    assert len({answer_tokens(b"k", mean=460, minimum=60, request_seed=i) for i in range(20)}) > 15


# --- acceptance --------------------------------------------------------------------------------------------------

falling = st.lists(st.floats(0.02, 0.98), min_size=1, max_size=8).map(lambda xs: sorted(xs, reverse=True))


@given(falling, st.floats(0.0, 1.2))
def test_a_calibrated_chain_averages_to_the_rates_that_were_given(rates, spread):
    chain = Chain.calibrated(rates, spread=spread)
    for i, rate in enumerate(rates):
        assert sum(w * chain.positions(spread * z)[i] for z, w in NODES) == pytest.approx(rate, abs=1e-6)


@given(st.lists(st.floats(0.05, 0.95), min_size=1, max_size=8), st.floats(0.05, 0.95))
def test_a_shape_can_be_brought_to_any_length_within_reach(odds, share):
    shape, rate = [], 1.0
    for value in odds:
        rate *= value
        shape.append(rate)
    length = 1.0 + share * len(shape)
    scaled = scaled_to(shape, length)
    assert 1.0 + sum(scaled) == pytest.approx(length)
    assert list(scaled) == sorted(scaled, reverse=True)


def test_an_acceptance_length_beyond_the_draft_is_refused():
    with pytest.raises(ValueError, match="out of reach"):
        scaled_to([0.5, 0.25], 3.0)


# --- KV blocks ---------------------------------------------------------------------------------------------------


def test_kept_blocks_are_found_until_their_room_is_needed_the_oldest_first():
    pool = KvPool(16 * 4, caching=True)
    first, second = block_hashes(range(32)), block_hashes(range(100, 132))
    for hashes in (first, second):
        assert pool.take(2)
        assert pool.publish(hashes) == list(hashes)
        pool.release(hashes, private=0)
    assert (pool.known(first), pool.known(second), pool.available, pool.usage) == (2, 2, 4, 0.0)
    assert pool.take(2)
    assert (pool.known(first), pool.known(second)) == (0, 2)
    assert not pool.take(3)
    pool.forget()
    assert pool.known(second) == 0


def test_blocks_that_two_requests_share_are_kept_until_both_let_go():
    pool = KvPool(16 * 8, caching=True)
    hashes = block_hashes(range(64))
    pool.take(4)
    pool.publish(hashes)
    pool.hold(hashes)
    pool.release(hashes, private=0)
    assert pool.usage == 0.5
    pool.release(hashes, private=0)
    assert pool.usage == 0.0


# --- metrics -----------------------------------------------------------------------------------------------------


def test_the_metrics_page_is_valid_and_has_vllms_names_and_labels():
    metrics = EngineMetrics(model="m", k=2, cache_config={"kv_cache_size_tokens": "100", "num_gpu_blocks": "6"})
    metrics.accepted_at = [3, 1]
    metrics.iteration_tokens.observe(5)
    families = {
        f.name: f for f in text_string_to_metric_families(metrics.render(running=1, waiting=2, kv_usage=0.5).decode())
    }
    by_position = {
        s.labels["position"]: s.value for s in families["vllm:spec_decode_num_accepted_tokens_per_pos"].samples
    }
    assert by_position == {"0": 3.0, "1": 1.0}
    assert families["vllm:generation_tokens"].samples[0].labels == {"engine": "0", "model_name": "m"}
    assert families["vllm:num_requests_waiting"].samples[0].value == 2.0
    counts = {s.name: s.value for s in families["vllm:iteration_tokens_total"].samples if "bucket" not in s.name}
    assert counts == {"vllm:iteration_tokens_total_count": 1.0, "vllm:iteration_tokens_total_sum": 5.0}
    assert families["vllm:cache_config_info"].samples[0].labels["kv_cache_size_tokens"] == "100"


def test_without_speculation_there_are_no_speculative_series():
    assert b"spec_decode" not in EngineMetrics(model="m", k=0, cache_config={}).render(
        running=0, waiting=0, kv_usage=0.0
    )


# --- requests ----------------------------------------------------------------------------------------------------


def chat(**more):
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **more}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"model": "m"}, "messages"),
        (chat(max_tokens=0), "max_tokens"),
        (chat(max_tokens=9999), "too large"),
        (chat(temperature=-1), "temperature must be non-negative"),
        (chat(top_p=0), "top_p"),
        (chat(n=2, temperature=0), "n must be 1 when using greedy sampling, got 2."),
        (chat(stream_options={"include_usage": True}), "Stream options can only be defined when `stream=True`."),
        (chat(min_tokens=20, max_tokens=10), "min_tokens"),
        (chat(min_p=0.1), "not yet supported with speculative decoding"),
        (chat(stop=[1]), "stop"),
        (chat(messages=[{"role": "user", "content": "word " * 5000}]), "maximum context length is 4096"),
        ([1], "valid dictionary"),
    ],
)
def test_a_request_that_vllm_refuses_is_refused(body, says):
    with pytest.raises(Refused, match=None) as refused:
        read_ask(body, chat=True, limits=LIMITS)
    assert refused.value.status == 400
    assert says in refused.value.body["error"]["message"]


def test_an_unknown_model_is_not_found():
    with pytest.raises(Refused) as refused:
        read_ask({**chat(), "model": "other"}, chat=True, limits=LIMITS)
    assert refused.value.status == 404
    assert refused.value.body["error"]["message"] == "The model `other` does not exist. Valid aliases: m."


def test_completions_take_text_and_token_ids():
    text = read_ask({"prompt": "def add(a, b):"}, chat=False, limits=LIMITS)
    ids = read_ask({"prompt": list(text.ids)}, chat=False, limits=LIMITS)
    assert text.ids == ids.ids
    assert text.max_tokens == 16
    with pytest.raises(Refused, match="out of vocabulary"):
        read_ask({"prompt": [10**7]}, chat=False, limits=LIMITS)


# --- settings, speculative settings, faults, profiles --------------------------------------------------------------


def test_the_command_line_of_vllm_is_understood():
    settings = read_settings(
        ["serve", "org/model", "--served-model-name", "a", "b", "--max-model-len", "32k", "--kv-cache-memory-bytes", "36G",
         "--no-enable-prefix-caching", "--sim-fault", "stall:1,2", "lost_usage", "--sim-fault", "foreign_load:5",
         "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}', "--trust-remote-code"]
    )  # fmt: skip
    assert settings.model == "org/model"
    assert settings.served_names == ("a", "b")
    assert (settings.max_model_len, settings.kv_cache_memory_bytes) == (32_000, 36 * 2**30)
    assert settings.prefix_caching is False
    assert [fault.name for fault in settings.faults] == ["stall", "lost_usage", "foreign_load"]
    assert settings.non_default["speculative_config"] == {"method": "mtp", "num_speculative_tokens": 3}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["m", "--no-such-flag", "3"], "vllm: error: unrecognized arguments: --no-such-flag 3"),
        (
            ["m", "--speculative-config", "{method: x}"],
            "vllm serve: error: argument --speculative-config/-sc: Value {method: x}",
        ),
        (["m", "--sim-profile", "nope"], "known are 5090, gb10, h200"),
        (["m", "--sim-fault", "nope"], "unknown fault 'nope'"),
        (["m", "--sim-speed", "0"], "must be above 0"),
    ],
)
def test_a_bad_command_line_ends_with_code_two_and_vllms_words(arguments, says, capsys):
    with pytest.raises(SystemExit) as ended:
        read_settings(arguments)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_numbers_with_suffixes_are_read_as_vllm_reads_them():
    assert [human_int(text) for text in ("7", "25.6k", "2K", "36G", "1m")] == [7, 25_600, 2048, 36 * 2**30, 10**6]


GOOD = {"method": "dflash", "num_speculative_tokens": 2}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({**GOOD, "bogus_key": 1}, "bogus_key\n  Unexpected keyword argument [type=unexpected_keyword_argument"),
        ({**GOOD, "method": "nope"}, "Input should be 'ngram'"),
        ({**GOOD, "draft_sample_method": "hot"}, "draft_sample_method"),
        ({"method": "mtp"}, "num_speculative_tokens must be provided"),
        ({**GOOD, "num_speculative_tokens": 0}, "greater than 0"),
        ({**GOOD, "rejection_sample_method": "synthetic"}, "exactly one of"),
        ({**GOOD, "rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.5]}, "must have length 2"),
        ({**GOOD, "rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.2, 0.5]}, "non-increasing"),
        ({**GOOD, "rejection_sample_method": "synthetic", "synthetic_acceptance_length": 9}, "must be in [1, 3]"),
    ],
)
def test_speculative_settings_that_vllm_refuses_are_refused_in_its_words(settings, says):
    text = speculative.problem(settings)
    assert text is not None
    assert text.startswith("pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig")
    assert says in text


def test_good_speculative_settings_are_taken():
    assert speculative.problem(None) is None
    assert speculative.problem(GOOD) is None


def test_faults_are_parsed_with_their_defaults():
    fault = parse_fault("stall:2")
    assert (fault.value("AFTER"), fault.value("SECONDS")) == (2.0, 1.0)
    faults = FaultSet.of([fault])
    assert faults.value("stall", "AFTER") == 2.0
    assert faults.clear("stall")
    assert not faults.clear("stall")
    for text in ("nope", "stall:1,2,3", "stall:x", "hang:1", "stall:DEPTH=1", "stall:AFTER=x", "stall:1,AFTER=2"):
        with pytest.raises(UnknownFault):
            parse_fault(text)


def test_an_argument_of_a_fault_may_be_given_by_its_name():
    assert parse_fault("stall:SECONDS=0.5").values == (("AFTER", 1.0), ("SECONDS", 0.5))
    assert parse_fault("stall:2,SECONDS=0.5").values == (("AFTER", 2.0), ("SECONDS", 0.5))


def test_every_fault_is_in_the_help_and_can_be_asked_for_as_the_help_writes_it():
    text = catalogue()
    assert all(f"  {kind.usage}" in text for kind in KINDS.values())
    taught = [line.split()[0] for line in text.splitlines() if line.startswith("  ")]
    assert len(taught) == len(KINDS)
    for usage in taught:
        assert parse_fault(usage) == parse_fault(usage.partition(":")[0]), "the help shows the defaults"
        assert read_settings(["m", "--sim-fault", usage]).faults == (parse_fault(usage),)


def test_a_profile_from_a_file_and_an_unusable_one(tmp_path):
    from importlib import resources

    text = (resources.files("nightsweep.simulator") / "profiles" / "h200.json").read_text()
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps({**json.loads(text), "name": "mine", "prefill_rate": 5.0}))
    assert load_profile(str(mine)).prefill_rate == 5.0
    (tmp_path / "broken.json").write_text("{}")
    for name in ("nope", str(tmp_path / "broken.json"), str(tmp_path / "missing.json")):
        with pytest.raises(ProfileError):
            load_profile(name)


def test_a_table_is_straight_between_its_points():
    table = ((1.0, 10.0), (3.0, 20.0))
    assert [at(table, x) for x in (0, 1, 2, 3, 5)] == [10, 10, 15, 20, 20]
    assert at(table, 5, prolong=True) == 30
