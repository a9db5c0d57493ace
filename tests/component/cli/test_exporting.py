"""What `decisions export` writes of a decision, measured or imported."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nightsweep.cli.decide import command as decide
from nightsweep.cli.decisions import command as decisions
from nightsweep.plan.sweepfile import load
from tests.component.cli.test_importing import Desk, a_table, desk

__all__ = ["desk"]

HEADER = "config,engine,model,box,image,concurrency,temperature,decode_rate,args.max-num-seqs,args.seed,env.VLLM_MODE"


@pytest.fixture
def decided(desk: Desk, tmp_path: Path) -> Desk:
    lines = [
        f"{name},vllm,org/m,spark-1,img:1,1,0.7,{rate},{seats},0,{mode}"
        for name, seats, mode, rates in (("c", 8, "one", (30.0, 31.0)), ("d", 16, "two", (20.0, 21.0)))
        for rate in rates
    ]
    desk.bring(a_table(tmp_path, *lines, header=HEADER))
    desk.call(decide, "spring", "--choose", "c", "--fallback", "d")
    return desk


def test_an_imported_config_as_yaml_has_what_was_decided_and_its_file_the_rest(decided: Desk) -> None:
    text = decided.call(decisions, "export", "1", "--as", "yaml").stdout
    assert yaml.safe_load(text) == [{"name": "c", "args": {"max-num-seqs": 8}, "env": {"VLLM_MODE": "one"}}]
    file, _ = decided.queries.plan_of(1)
    engine = yaml.safe_dump({"name": "again", "engine": yaml.safe_load(file)["engine"]})
    (config,) = load(f"{engine}configs:\n{text}probe: {{concurrency: [1], temperature: [0.7]}}\n").configs
    assert config.fingerprint == next(one.fingerprint for one in load(file).configs if one.name == "c")


def test_every_form_has_the_environment_of_choice_and_fallback(decided: Desk) -> None:
    for form, chosen, beside in (
        ("args", "# environment: VLLM_MODE=one", "# environment: VLLM_MODE=two"),
        ("compose", "  VLLM_MODE: one", "#   VLLM_MODE: two"),
        ("yaml", "    VLLM_MODE: one", "#     VLLM_MODE: two"),
    ):
        first, second = decided.call(decisions, "export", "1", "--as", form).stdout.split("# fallback: d\n")
        assert chosen in first.splitlines()
        assert beside in second.splitlines()
