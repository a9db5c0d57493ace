from __future__ import annotations

import pytest

from nightsweep.engine.dialects import sglang_dialect, vllm_dialect
from nightsweep.engine.values import Dialect, Series
from nightsweep.errors import DialectMismatch
from nightsweep.probe.readings import canonical, require_counter, samples_of
from tests.fakes.probe import a_reading

PAGE = b"""# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m,\\"x"} 3.4e+03
vllm:generation_tokens_total{engine="1",model_name="m,\\"x"} 600.0
vllm:generation_tokens_created{engine="0",model_name="m"} 1.7898156657067244e+09
vllm:generation_tokens_total_extra{engine="0"} 100
vllm:num_requests_running{engine="0"} nan
vllm:num_requests_running{engine="1"} 4.0 1700000000000
vllm:iteration_tokens_total_sum{engine="0"} 9000.0
vllm:iteration_tokens_total_count{engine="0"} 120.0
vllm:iteration_tokens_total_bucket{engine="0",le="+Inf"} 120.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 75.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="0"} 5.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 52.0
vllm:num_preemptions_total{engine="0" this line is broken
process_start_time_seconds 1.7959e+09
"""


def test_a_page_is_summed_over_engines_and_kept_apart_by_position() -> None:
    values = canonical(PAGE, vllm_dialect("0.32.0"))
    assert values["generation_tokens"] == 4000.0
    assert values["steps"] == 120.0
    assert (values["accepted_per_position[0]"], values["accepted_per_position[1]"]) == (80.0, 52.0)
    assert values["running"] == 4.0
    assert values["process_start"] == 1.7959e9


def test_what_a_page_does_not_hold_is_absent() -> None:
    values = canonical(PAGE, vllm_dialect("0.32.0"))
    assert "drafts" not in values
    assert "preemptions" not in values
    assert "waiting" not in values


def test_bytes_that_are_no_text_raise_nothing() -> None:
    assert canonical(b"\xff\xfe\x00vllm:generation_tokens_total 5\n", vllm_dialect(None)) == {}


def test_only_wanted_lines_are_parsed_and_names_match_exactly() -> None:
    found = list(samples_of(PAGE.decode(), names=frozenset({"vllm:generation_tokens_total"})))
    assert [(name, labels["engine"], value) for name, labels, value in found] == [
        ("vllm:generation_tokens_total", "0", 3400.0),
        ("vllm:generation_tokens_total", "1", 600.0),
    ]


def test_a_missing_token_counter_is_a_mismatch_that_says_why() -> None:
    with pytest.raises(DialectMismatch, match="counts tokens while they come only since"):
        require_counter(a_reading(0.0), sglang_dialect("0.5.2"), "generation_tokens")
    with pytest.raises(DialectMismatch, match="statistics may be switched off"):
        require_counter(a_reading(0.0), vllm_dialect("0.32.0"), "generation_tokens")
    bare = Dialect(engine="x", version="1", series={"generation_tokens": (Series("y"),)})
    require_counter(a_reading(0.0, generation_tokens=1.0), bare, "generation_tokens")


def test_a_sample_reads_the_names_that_it_needs_and_no_others() -> None:
    whole = canonical(PAGE, vllm_dialect("0.32.0"))
    few = canonical(PAGE, vllm_dialect("0.32.0"), only={"running", "waiting", "generation_tokens"})
    assert few == {name: whole[name] for name in ("running", "generation_tokens")}
