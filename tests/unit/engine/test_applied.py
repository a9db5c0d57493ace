"""A config that was not applied as asked is found by what the boot itself says."""

from __future__ import annotations

from typing import Any

import pytest

from nightsweep.engine.applied import dead_drafter, not_applied
from nightsweep.engine.bootlog import read
from nightsweep.engine.values import BootFacts
from nightsweep.plan.model import EngineConfig, EngineSpec
from tests.unit.engine.data import lines_of_file


def a_config(
    speculative: dict[str, Any] | None, *, kind: str = "vllm", args: dict[str, Any] | None = None
) -> EngineConfig:
    spec = EngineSpec(kind=kind, host="docker", model="m", served_name="m", args=args or {})
    return EngineConfig(name="c", engine=spec, speculative=speculative, document={}, fingerprint="f" * 64)


def boot(name: str) -> BootFacts:
    return read(lines_of_file("bootlogs", name))


BLOCK = {"draft_sample_method": "probabilistic", "rejection_sample_method": "block"}


def test_block_on_the_v1_runner_of_a_real_boot_is_not_applied_and_takes_probabilistic_with_it() -> None:
    asked = {"method": "draft_model", "model": "/srv/models/tiny-draft", "num_speculative_tokens": 4, **BLOCK}
    found = not_applied(a_config(asked), boot("vllm-0.32.0-cpu-P-draft-t1-block.log"))
    assert len(found) == 2
    assert "'block' is silently ignored" in found[0]
    assert "'probabilistic' is switched off" in found[1]


def test_the_same_keys_on_the_v2_runner_are_applied() -> None:
    asked = {"method": "eagle", "model": "/models/eagle", "num_speculative_tokens": 5, **BLOCK}
    assert not_applied(a_config(asked, args={"max-model-len": 32768}), boot("vllm-0.26.0-cuda-eagle5pb.log")) == ()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"method": "eagle", "model": "/models/eagle", "num_speculative_tokens": 7, **BLOCK}, "runs 5"),
        ({"method": "dflash", "model": "/models/eagle", "num_speculative_tokens": 5, **BLOCK}, "runs 'eagle'"),
        ({"method": "eagle", "num_speculative_tokens": 5, "kv_cache_dtype": "fp8"}, "kv_cache_dtype was asked for"),
        (None, "no speculation was asked for"),
    ],
)
def test_what_the_engine_runs_instead_is_told(asked: dict[str, Any] | None, told: str) -> None:
    assert any(told in line for line in not_applied(a_config(asked), boot("vllm-0.26.0-cuda-eagle5pb.log")))


def test_speculation_that_the_engine_does_not_name_is_not_applied() -> None:
    asked = {"method": "mtp", "num_speculative_tokens": 3}
    assert "names none" in not_applied(a_config(asked), boot("vllm-0.26.0-cuda-none_cold.log"))[0]
    assert not_applied(a_config(asked), BootFacts()) == ()  # nothing told, nothing found


def test_a_context_that_was_reduced_is_told() -> None:
    found = not_applied(a_config(None, args={"max-model-len": "64K"}), boot("vllm-0.26.0-cuda-none_cold.log"))
    assert found == ("max-model-len 65,536 was asked for, and the engine uses 32,768",)


def test_a_draft_length_that_sglang_resolved_otherwise_is_told() -> None:
    facts = boot("sglang-0.5.23.log")
    asked = {"algorithm": "dspark", "dspark_block_size": 7}
    assert not_applied(a_config(asked, kind="sglang"), facts) == ()
    assert "resolved it to 8" in not_applied(a_config({**asked, "num_draft_tokens": 7}, kind="sglang"), facts)[0]
    assert "no speculation was asked for" in not_applied(a_config(None, kind="sglang"), facts)[0]


def test_a_drafter_of_which_nothing_is_accepted_is_dead() -> None:
    assert "does not fit" in (dead_drafter(drafts=80_000, accepted_tokens=0) or "")
    assert dead_drafter(drafts=80_000, accepted_tokens=1) is None
    assert dead_drafter(drafts=3, accepted_tokens=0) is None
    assert dead_drafter(drafts=None, accepted_tokens=None) is None
