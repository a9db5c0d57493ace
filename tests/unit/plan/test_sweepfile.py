"""What a sweep file says is what the plan holds."""

import copy
import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nightsweep.errors import InvalidPlan
from nightsweep.plan import yamltree
from nightsweep.plan.model import PrefillSpec, Production, SamplingSpec, Schedule, SecretRef, SingleBatchSpec
from nightsweep.plan.sweepfile import load
from tests.unit.plan.builders import FILE, a_file, a_plan

EXAMPLES = sorted(one for one in (Path(__file__).parents[3] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_a_valid_sweep_file(path: Path) -> None:
    plan = load(path.read_text(encoding="utf-8"), source=path.name)

    assert plan.configs
    assert plan.warnings == ()


def test_there_are_examples_for_docker_process_images_and_sglang() -> None:
    names = {path.name for path in EXAMPLES}

    assert {"spark-dflash2-depth.yaml", "process-vllm.yaml", "images.yaml", "sglang-dspark.yaml"} <= names


def test_the_design_s_own_file_gives_seventeen_configs_and_510_windows() -> None:
    text = next(path for path in EXAMPLES if path.name == "spark-dflash2-depth.yaml").read_text(encoding="utf-8")

    plan = load(text)

    assert plan.name == "dflash2-depth"
    assert plan.production == Production(container="vllm-qwen")
    assert plan.schedule == Schedule(cron="30 22 * * *", timezone="Europe/Amsterdam", until="07:00")
    assert [config.name for config in plan.configs[:3]] == [
        "mtp",
        "dflash2 k=4 greedy/standard",
        "dflash2 k=4 greedy/block",
    ]
    assert len(plan.configs) == 1 + 4 * 2 * 2
    assert plan.probe.temperature == (Decimal("0.70"), Decimal("1.00"))
    assert plan.probe.through == "https://gateway.lan/v1"
    assert plan.probe.prefill == PrefillSpec(tokens=12000, repeats=3)
    engine = plan.configs[0].engine
    assert engine.args == {"max-model-len": 262144, "kv-cache-memory-bytes": "36G"}
    assert engine.env == {"HF_TOKEN": SecretRef("HF_TOKEN")}
    assert engine.container.shm_size == 16 * 2**30
    assert engine.boot_timeout == 1200.0
    assert engine.command == ()


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("40s", 40.0), ("40", 40.0), ("40.5", 40.5), ("20m", 1200.0), ("1h30m", 5400.0), ("'15'", 15.0), ("500ms", 0.5)],
)
def test_a_duration_is_read_in_seconds(written: str, seconds: float) -> None:
    assert a_plan(("window: 40s", f"window: {written}")).probe.window == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("written", "count"), [("16G", 16 * 2**30), ("16GiB", 16 * 2**30), ("64mb", 2**26), ("1024", 1024)]
)
def test_a_size_is_read_as_docker_reads_it(written: str, count: int) -> None:
    plan = a_plan(("  boot_timeout: 20m", f"  container: {{shm_size: {written}}}"))

    assert plan.configs[0].engine.container.shm_size == count


@pytest.mark.parametrize("written", ["22:30", '"22:30"', "07:00", "7:00"])
def test_a_time_of_day_needs_no_quotes(written: str) -> None:
    until = a_plan(('"07:00"', written)).schedule.until  # type: ignore[union-attr]

    assert until == written.strip('"').rjust(5, "0")


def test_a_word_that_yaml_once_read_as_a_truth_value_stays_a_word_and_is_warned_of() -> None:
    plan = a_plan(("{max-model-len: 8192}", "{enforce-eager: yes}"))

    assert plan.configs[0].engine.args == {"enforce-eager": "yes"}
    assert plan.warnings == (
        'sweep.yaml:7: engine.args.enforce-eager: passes the word "yes" on; a bare flag is `true`',
    )


def test_every_key_of_the_probe_reaches_the_plan() -> None:
    extra = """\
  boots: 2
  prompts: prompts/mine.jsonl
  prompt_seed: 7
  api: completions
  through: http://gateway.lan
  api_key: {from_env: GATEWAY_KEY}
  warmup: 0
  max_attempts: 2
  request_timeout: 15m
  sampling: {top_p: 0.95, top_k: 20, min_p: 0.01, max_tokens: 256, ignore_eos: true, seed: 3, presence_penalty: 1.5}
  prefill: {tokens: 2000}
  single_batch: {input: 512}
  ca: /etc/ssl/lan.pem
  http2: true
"""
    probe = a_plan(("  repeats: 3\n", "  repeats: 3\n" + extra)).probe

    assert (probe.boots, probe.prompts, probe.prompt_seed, probe.api) == (2, "prompts/mine.jsonl", 7, "completions")
    assert probe.through == "http://gateway.lan/v1"
    assert probe.api_key == SecretRef("GATEWAY_KEY")
    assert (probe.warmup, probe.max_attempts, probe.request_timeout) == (0.0, 2, 900.0)
    assert probe.sampling == SamplingSpec(
        top_p=0.95, top_k=20, min_p=0.01, max_tokens=256, ignore_eos=True, seed=3, presence_penalty=1.5
    )
    assert probe.prefill == PrefillSpec(tokens=2000, repeats=3)
    assert probe.single_batch == SingleBatchSpec(input=512, output=256, runs=2, temperature=Decimal(0))
    assert (probe.ca, probe.http2) == ("/etc/ssl/lan.pem", True)


def test_prefill_takes_several_lengths_and_a_load() -> None:
    lengths = ("  repeats: 3\n", "  repeats: 3\n  prefill: {tokens: [2000, 12000, 60000], under_load: 4}\n")
    probe = a_plan(("max-model-len: 8192", "max-model-len: 65536"), lengths).probe

    assert probe.prefill == PrefillSpec(tokens=2000, repeats=3, others=(12000, 60000), under_load=4)
    assert (probe.prefill.lengths, probe.prefill.per_boot) == ((2000, 12000, 60000), 18)


def test_keys_for_a_proxy_without_a_proxy_are_warned_of() -> None:
    plan = a_plan(("  repeats: 3\n", "  repeats: 3\n  http2: true\n  ca: lan.pem\n"))

    assert [warning.split(": ")[1] for warning in plan.warnings] == ["probe.ca", "probe.http2"]
    assert all("there is none" in warning for warning in plan.warnings)


def test_every_key_of_the_engine_reaches_the_plan() -> None:
    extra = "  command: '{python} -m nightsweep.simulator'\n  port: auto\n  stop_grace: 5\n  model_revision: abc\n"
    plan = a_plan(("  boot_timeout: 20m\n", extra), ("name: depth", "name: depth\nbox: spark-1"))

    engine = plan.configs[0].engine
    assert engine.command == ("{python}", "-m", "nightsweep.simulator")
    assert (engine.port, engine.stop_grace, engine.model_revision) == (0, 5.0, "abc")
    assert engine.served_name == "org/target"
    assert plan.box == "spark-1"
    assert plan.simulated, "a command that starts the simulator says so by itself"


def test_a_process_is_started_by_the_engine_s_usual_command() -> None:
    text = a_file(("host: docker", "host: process"), ("  image: vllm/vllm-openai:v0.28.0\n", ""))

    assert load(text).configs[0].engine.command == ("vllm", "serve")


def test_a_config_overrides_what_the_engine_section_says() -> None:
    own = """\
  - name: plain
    args: {max_model_len: null, enforce-eager: true}
    env: {HF_TOKEN: null, VLLM_X: 1}
    image: local/vllm:dev
    model: org/other
    container: {ipc: host}
"""
    engine = (
        a_plan(
            ("  - name: plain\n", own),
            ("  boot_timeout: 20m", "  model_revision: abc\n  container: {gpus: all, ipc: private}"),
        )
        .configs[0]
        .engine
    )

    assert engine.args == {"enforce-eager": True}
    assert engine.env == {"VLLM_X": "1"}
    assert (engine.image, engine.model, engine.served_name) == ("local/vllm:dev", "org/other", "org/other")
    assert engine.model_revision is None, "a revision belongs to its model"
    assert (engine.container.gpus, engine.container.ipc) == ("all", "host")


def test_an_api_key_of_the_engine_is_moved_off_the_command_line_and_used_by_the_probe() -> None:
    plan = a_plan(("{max-model-len: 8192}", "{api-key: {from_env: ENGINE_KEY}}"))

    engine = plan.configs[0].engine
    assert engine.args == {}
    assert engine.env["VLLM_API_KEY"] == SecretRef("ENGINE_KEY")
    assert plan.probe.api_key == SecretRef("ENGINE_KEY")


def test_anchors_merge_keys_and_free_keys_save_typing() -> None:
    text = a_file(
        ("name: depth", "x-common: &common {gpus: all, ipc: host}\nname: depth"),
        ("  boot_timeout: 20m", "  container: {<<: *common, ipc: private}"),
    )

    container = load(text).configs[0].engine.container
    assert (container.gpus, container.ipc) == ("all", "private")


def test_a_plan_and_its_refusal_survive_pickling() -> None:
    plan = a_plan()

    assert pickle.loads(pickle.dumps(plan)) == plan
    with pytest.raises(InvalidPlan) as caught:
        load("name: 1\n")
    assert pickle.loads(pickle.dumps(caught.value)).facts == caught.value.facts


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_file_cut_or_garbled_anywhere_is_taken_or_refused_and_nothing_else(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(FILE)))
    end = data.draw(st.integers(start, min(len(FILE), start + 40)))
    text = FILE[:start] + data.draw(st.text(max_size=12)) + FILE[end:]

    try:
        plan = load(text)
    except InvalidPlan as error:
        assert error.facts["problems"]
    else:
        assert plan.configs


_TEXTS = st.text(st.characters(max_codepoint=0xD7FF), max_size=8)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for step, inner in steps for place in _places(inner, (*path, step)))]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_value_in_any_place_is_taken_or_refused_with_its_line(data: st.DataObject) -> None:
    document = copy.deepcopy(yaml.safe_load(FILE))
    place = data.draw(st.sampled_from(_places(document)[1:]))
    holder = document
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = data.draw(_VALUES)

    try:
        plan = load(json.dumps(document), source="f")
    except InvalidPlan as error:
        assert all(problem.startswith("f:1: ") for problem in error.facts["problems"])
    else:
        assert len({config.fingerprint for config in plan.configs}) == len(plan.configs)


@pytest.mark.parametrize(
    "value", ["1e3", "0x1F", "0o17", "007", ".5", "no", "null", "", "22:30", "a: b", "- x", "~", "1.0", "true"]
)
def test_what_is_written_is_read_back_as_it_was(value: str) -> None:
    document = {"name": value, "list": [value, 1, 2.5, True, None]}
    assert yamltree.read(yamltree.write(document)).value == document
