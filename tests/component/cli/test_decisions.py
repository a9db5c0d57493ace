"""A conclusion that loses its premise is questioned, and the sweep that asks again is written: the published depth question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from nightsweep.analysis import markdown
from nightsweep.analysis.morning import summary_blocks
from nightsweep.cli.decide import command as decide
from nightsweep.cli.deciding import Reach
from nightsweep.cli.decisions import command as decisions
from nightsweep.cli.plan import command as plan_command
from nightsweep.errors import DockerUnavailable, NothingToDecide
from nightsweep.measurement.traffic import Traffic
from nightsweep.plan.sweepfile import load
from nightsweep.ports import BoxFacts, ForeignContainer
from nightsweep.probe.prompts import load_prompts
from nightsweep.service.telling import night_in
from nightsweep.store.decisions import Decisions
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from nightsweep.wiring import prompts_hash
from tests.storekit.builders import EVENING, TTL, a_production
from tests.storekit.byhand import enter

PROMPTS = load_prompts("code").sha256
BOX = BoxFacts("spark-1", "a" * 64, {"accelerators": [{"name": "NVIDIA GB10"}], "driver": "580.95", "kernel": "6.14"})

FILE = """\
name: dflash2-depth
production: {container: vllm-qwen}
engine:
  kind: vllm
  host: docker
  image: vllm/vllm-openai:v0.28.0
  model: unsloth/Qwen3.8-27B-NVFP4
  args: {max-model-len: 262144, max-num-seqs: 16}
  env: {HF_TOKEN: {from_env: HF_TOKEN}}
configs:
  - name: MTP k=3
    speculative: {method: mtp, num_speculative_tokens: 3}
  - name: DFlash2 k={num_speculative_tokens}
    speculative: {method: dflash, model: org/qwen-dflash2}
    grid: {num_speculative_tokens: [7, 5, 4]}
probe:
  concurrency: [1, 2, 4, 8, 16]
  temperature: [0.7]
  window: 40s
  repeats: 1
"""
DEPTH = {
    "MTP k=3": {1: [20.8], 2: [39.7], 4: [81.2], 8: [124.4], 16: [202.7]},
    "DFlash2 k=7": {1: [26.0], 2: [52.3], 4: [81.0], 8: [135.2], 16: [192.6]},
    "DFlash2 k=5": {1: [28.5], 2: [47.5], 4: [91.4], 8: [137.4], 16: [216.1]},
    "DFlash2 k=4": {1: [23.0], 2: [47.8], 4: [94.2], 8: [142.4], 16: [229.7]},
}
NEW_RULE = """\
name: drafting-rule
engine: {kind: vllm, host: docker, image: vllm/vllm-openai:v0.28.0, model: unsloth/Qwen3.8-27B-NVFP4}
configs:
  - name: DFlash2 k=7 {draft_sample_method}/{rejection_sample_method}
    speculative: {method: dflash, model: org/qwen-dflash2, num_speculative_tokens: 7}
    grid: {draft_sample_method: [probabilistic], rejection_sample_method: [block]}
probe: {concurrency: [1], temperature: [0.7], repeats: 3}
"""
RULE = {"DFlash2 k=7 probabilistic/block": {1: [39.7, 33.1, 31.5]}}


@dataclass
class Desk:
    """A user's desk: what is stored, the container that serves, and the commands."""

    engine: sa.Engine
    store: PostgresStore
    production: ForeignContainer | None = None
    prompts: str = PROMPTS
    hour: int = 9
    reach: Reach = field(init=False)

    def __post_init__(self) -> None:
        self.reach = Reach(
            decisions=lambda: self._opened(Decisions(self.engine)),
            queries=lambda: self._opened(Queries(self.engine)),
            now=lambda: EVENING + timedelta(hours=self.hour),
            foreign=self._foreign,
            prompts_hash=lambda name: self.prompts,
        )

    @contextmanager
    def _opened(self, what: Any) -> Iterator[Any]:
        yield what

    def _foreign(self, name: str) -> ForeignContainer:
        if self.production is None:
            raise DockerUnavailable(reason="no socket")
        return self.production

    def call(self, command: click.Command, *words: str) -> Result:
        result = CliRunner().invoke(command, list(words), obj=self.reach)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def depth(self, **changes: Any) -> int:
        return enter(self.store, FILE, DEPTH, **{"box": BOX, "prompts_hash": PROMPTS, **changes})

    def rule(self, **changes: Any) -> int:
        given = {"box": BOX, "prompts_hash": PROMPTS, "at": EVENING + timedelta(days=7), **changes}
        return enter(self.store, NEW_RULE, RULE, **given)

    def five_is_the_block(self, *words: str) -> Result:
        chosen = ("--choose", "DFlash2 k=5", "--fallback", "MTP k=3", "--question", "five is the block")
        return self.call(decide, "dflash2-depth", *chosen, *words)

    def listed(self) -> list[dict[str, Any]]:
        found = json.loads(self.call(decisions, "--json").stdout)["decisions"]
        assert isinstance(found, list)
        return found

    def changed(self) -> dict[str, tuple[Any, Any]]:
        (one,) = self.listed()
        return {change["premise"]: (change["old"], change["new"]) for change in one["changes"]}


@pytest.fixture
def desk(engine: sa.Engine, store: PostgresStore) -> Desk:
    return Desk(engine, store)


def test_five_is_the_block_is_questioned_when_the_drafting_rule_changes_and_asked_again(
    desk: Desk, tmp_path: Path
) -> None:
    desk.depth()
    desk.five_is_the_block("--at", "c=1,T=0.7")
    assert [one["state"] for one in desk.listed()] == ["standing"]

    desk.rule()
    (one,) = desk.listed()
    assert one["state"] == "questioned"
    assert desk.changed() == {
        "config.speculative.draft_sample_method": (None, "probabilistic"),
        "config.speculative.rejection_sample_method": (None, "block"),
    }
    shown = desk.call(decisions).stdout
    assert "questioned" in shown
    assert "draft_sample_method: was absent, is probabilistic" in shown

    queries = Queries(desk.engine)
    night = markdown.document(summary_blocks(night_in(queries, queries.sweep_of("drafting-rule"), now=EVENING)))
    assert "## Decisions in question" in night, "told in the morning after the night that changed it"
    assert "config.speculative.draft_sample_method: was absent, is probabilistic" in night
    assert "nightsweep decisions show 1 --reask" in night
    desk.call(decisions, "retire", "1", "--why", "asked again")
    assert queries.questioned("spark-1", simulated=False) == []
    with desk.engine.begin() as connection:
        connection.execute(sa.text("UPDATE decisions SET retired_at = NULL, retired_why = NULL"))
    assert queries.questioned("another box", simulated=False) == []

    again = tmp_path / "again.yaml"
    desk.call(decisions, "show", "1", "--reask", "-o", str(again))
    plan = load(again.read_text())
    asked = [
        (c.speculative["num_speculative_tokens"], c.speculative.get("draft_sample_method"), c.speculative["method"])
        for c in plan.configs
        if c.speculative is not None
    ]
    new_rule = [(7, "probabilistic", "dflash"), (5, "probabilistic", "dflash"), (4, "probabilistic", "dflash")]
    assert asked == [*new_rule, (5, None, "dflash"), (3, None, "mtp")]
    rejection = {c.speculative.get("rejection_sample_method") for c in plan.configs[:3] if c.speculative is not None}
    assert rejection == {"block"}
    assert (plan.probe.concurrency, [str(t) for t in plan.probe.temperature]) == ((1,), ["0.70"])
    assert plan.production is not None
    assert "# Asks decision 1 again: five is the block" in again.read_text()
    planned = CliRunner().invoke(plan_command, [str(again)])
    assert planned.exit_code == 0, planned.output
    assert "DFlash2 k=4 (draft_sample_method=probabilistic, rejection_sample_method=block)" in planned.output


def test_a_decision_on_an_old_sweep_is_questioned_from_the_start_by_a_newer_one(desk: Desk) -> None:
    desk.depth()
    desk.rule()
    said = desk.five_is_the_block("--at", "c=1").stdout
    assert said.startswith("decision 1: questioned")
    assert "config.speculative.draft_sample_method: was absent, is probabilistic" in said


def test_a_decision_on_lone_runs_warns_loudly_and_keeps_its_windows(desk: Desk) -> None:
    enter(desk.store, FILE, {**DEPTH, "DFlash2 k=5": {8: [178.5]}}, box=BOX, prompts_hash=PROMPTS)
    said = desk.five_is_the_block("--at", "c=8").stdout
    assert "178.5 rests on one run: measure it again (DFlash2 k=5 at 8 streams, T=0.7)" in said
    (one,) = desk.listed()
    (cell,) = [cell for cell in one["evidence"] if cell["config"] == "DFlash2 k=5"]
    assert (cell["n"], cell["boots"], len(cell["windows"])) == (1, 1, 1)
    with desk.engine.connect() as connection:
        kept = connection.scalars(sa.text("SELECT window_id FROM decision_windows")).all()
    assert set(kept) == {window for cell in one["evidence"] for window in cell["windows"]}


def test_the_question_is_the_setting_that_differs_among_configs_of_one_method(desk: Desk) -> None:
    desk.depth()
    desk.call(decide, "dflash2-depth", "--choose", "DFlash2 k=5", "--fallback", "MTP k=3")
    (one,) = desk.listed()
    assert one["factors"] == ["speculative.num_speculative_tokens"]
    assert one["question"] == "num_speculative_tokens: 4, 5 or 7 (5 chosen)"
    assert one["premises"]["config.speculative.model"] == "org/qwen-dflash2"
    assert one["premises"]["engine_version"] == "0.28.0"
    assert one["premises"]["box.driver"] == "580.95"
    assert one["premises"]["sampling.top_p"] == 1.0


def test_a_new_engine_and_driver_and_prompt_set_each_question_it_by_name(desk: Desk) -> None:
    desk.depth()
    desk.five_is_the_block()
    newer = replace(BOX, fingerprint="b" * 64, facts={**BOX.facts, "driver": "590.10"})
    desk.depth(
        box=newer, version="0.29.0", digest="sha256:029", at=EVENING + timedelta(days=3)
    )  # another row of boxes: another sweep of the same file
    desk.prompts = "f" * 64
    assert desk.changed() == {
        "box.driver": ("580.95", "590.10"),
        "engine_version": ("0.28.0", "0.29.0"),
        "image_digest": ("sha256:028", "sha256:029"),
        "prompts": (PROMPTS, "f" * 64),
    }


def test_a_prompt_file_beside_the_sweep_file_is_read_again_and_one_that_is_gone_is_told_with_its_decision(
    desk: Desk, tmp_path: Path
) -> None:
    beside = tmp_path / "p.jsonl"
    beside.write_text('{"prompt": "number 0"}\n')
    desk.reach = replace(desk.reach, prompts_hash=prompts_hash)
    before = prompts_hash(str(beside))
    enter(desk.store, f"{FILE}  prompts: p.jsonl\n", DEPTH, box=BOX, prompts_hash=before, base=str(tmp_path))
    desk.five_is_the_block()
    assert desk.changed() == {}
    beside.write_text('{"prompt": "number zero"}\n')
    assert desk.changed() == {"prompts": (before, prompts_hash(str(beside)))}
    beside.unlink()
    assert f"decision 1: prompts: {beside} is gone; skipped" in " ".join(desk.call(decisions).stdout.split())


def test_of_a_sweep_whose_folder_was_not_kept_a_relative_prompt_file_is_not_guessed(desk: Desk) -> None:
    enter(desk.store, f"{FILE}  prompts: p.jsonl\n", DEPTH, box=BOX, prompts_hash=PROMPTS)
    desk.prompts = "f" * 64
    desk.five_is_the_block()
    assert desk.changed() == {}
    assert any("an earlier version did not keep where" in skipped for skipped in desk.listed()[0]["skipped"])


def test_a_change_that_was_looked_at_questions_no_more_until_it_changes_again(desk: Desk) -> None:
    desk.depth()
    desk.five_is_the_block()
    desk.prompts = "f" * 64
    desk.call(decisions, "accept", "1", "--reason", "a typo in one prompt")
    (one,) = desk.listed()
    assert (one["state"], one["changes"][0]["accepted"]) == ("standing", "a typo in one prompt")
    desk.prompts = "e" * 64
    assert desk.listed()[0]["state"] == "questioned"


def test_a_change_that_there_is_not_cannot_be_accepted_and_the_answer_names_those_there_are(desk: Desk) -> None:
    desk.depth()
    desk.five_is_the_block()
    nothing = desk.call(decisions, "accept", "1", "--reason", "so")
    assert "decision 1 is not questioned: there is no change to accept" in nothing.stderr
    desk.prompts = "f" * 64
    other = desk.call(decisions, "accept", "1", "--reason", "so", "--premise", "box.driver")
    assert "box.driver does not question it; what does is prompts" in other.stderr


def test_a_list_of_decisions_is_short_where_the_decision_itself_is_whole(desk: Desk) -> None:
    desk.depth()
    question = "which block length of DFlash2 under probabilistic drafting is to serve code generation at one stream"
    desk.five_is_the_block("--question", question)
    desk.prompts = "f" * 64
    (line,) = [line for line in desk.call(decisions).output.splitlines() if "questioned  " in line]
    assert question not in line
    assert f"is {'f' * 12} (" in line
    whole = desk.call(decisions, "show", "1").output
    assert question in whole
    assert PROMPTS not in whole
    assert PROMPTS[:12] in whole
    assert PROMPTS in desk.call(decisions, "--json").output


def test_a_retired_decision_is_out_of_the_list_and_stays_on_record(desk: Desk) -> None:
    desk.depth()
    desk.five_is_the_block()
    desk.call(decisions, "retire", "1", "--why", "asked again")
    assert "no decision is in force" in desk.call(decisions).stdout
    assert "retired:" in desk.call(decisions, "show", "1").stdout
    assert "already" in desk.call(decisions, "retire", "1", "--why", "twice").stdout


def serving(*args: str) -> ForeignContainer:
    command = ("--model", "unsloth/Qwen3.8-27B-NVFP4", *args, "--api-key", "sk-very-secret")
    return replace(a_production(), command=command, shown_command=())


def test_production_that_departs_questions_it_and_production_that_runs_the_choice_does_not(desk: Desk) -> None:
    mtp = '{"method": "mtp", "num_speculative_tokens": 3}'
    desk.production = serving("--max-num-seqs", "16", "--speculative-config", mtp)
    desk.depth()
    desk.five_is_the_block()
    five = '{"method": "dflash", "model": "org/qwen-dflash2", "num_speculative_tokens": 5}'
    desk.production = serving("--max-num-seqs", "16", "--speculative-config", five)
    assert desk.changed() == {}
    desk.production = serving("--max-num-seqs", "32", "--speculative-config", five)
    assert desk.changed() == {"production.args.max-num-seqs": (16, 32)}
    again = load(desk.call(decisions, "show", "1", "--reask").stdout)
    assert {config.engine.args["max-num-seqs"] for config in again.configs[:3]} == {32}
    assert "sk-very-secret" not in json.dumps(desk.listed())


def test_docker_that_does_not_answer_is_said_and_questions_nothing(desk: Desk) -> None:
    desk.production = serving("--max-num-seqs", "16")
    desk.depth()
    desk.five_is_the_block()
    desk.production = None
    (one,) = desk.listed()
    assert one["state"] == "standing"
    assert any("the Docker Engine does not answer" in skipped for skipped in one["skipped"])


# --- traffic ---------------------------------------------------------------------------------------------------------


def served(
    desk: Desk,
    sweep: int,
    *,
    prompt: float = 1200.0,
    generation: float = 300.0,
    requests: int = 400,
    at: timedelta = timedelta(),
    container: str = "vllm-qwen",
    problem: str | None = None,
    box: BoxFacts = BOX,
) -> int:
    """Have a sweep take production down, and bring it back, after it has served so much in ten hours."""
    read = EVENING + at
    counts: dict[str, Any] = {"requests": requests, "prompt_tokens": requests * prompt}
    counts |= {"generation_tokens": requests * generation, "generated_tokens": requests * generation}
    counts |= {"request_seconds": 7200.0, "since": read - timedelta(hours=10), "since_by": "process"}
    traffic = Traffic(read, problem=problem, **({} if problem else counts))
    lease = desk.store.claim(sweep, owner="guard:1:1:1", ttl=TTL)
    intent = desk.store.open_intent(lease, a_production(container), restore_by=None, traffic=traffic)
    desk.store.close_intent(intent, outcome="restored")
    desk.store.release(lease, state="done", note="")
    return intent


def premises_of_traffic(desk: Desk) -> dict[str, float]:
    (one,) = desk.listed()
    return {name: value for name, value in one["premises"].items() if name.startswith("traffic.")}


def another_night(desk: Desk, *, name: str = "later", **traffic: Any) -> int:
    """Have a later sweep on the same box take production down."""
    later = enter(desk.store, FILE.replace("dflash2-depth", name), DEPTH, box=BOX, prompts_hash=PROMPTS)
    return served(desk, later, at=timedelta(days=3), **traffic)


def test_traffic_that_changes_questions_a_decision_until_it_is_accepted_and_the_morning_says_so(desk: Desk) -> None:
    served(desk, desk.depth())
    said = desk.five_is_the_block("--at", "c=1").stdout
    assert premises_of_traffic(desk) == {
        "traffic.prompt_tokens": 1200.0,
        "traffic.generation_tokens": 300.0,
        "traffic.streams": 0.2,
    }
    shown = " ".join(said.split())
    assert (
        "traffic is the mean of 400 finished requests of vllm-qwen, 2026-11-29 12:30 to 2026-11-29 22:30 UTC" in shown
    )
    assert "traffic: production's is not known" not in shown
    (one,) = desk.listed()
    assert (one["state"], one["traffic"]["requests"], one["traffic"]["container"]) == ("standing", 400, "vllm-qwen")

    another_night(desk, prompt=1700.0, generation=250.0, requests=90)
    assert desk.changed() == {}, "a mean drifts from day to day"

    queries = Queries(desk.engine)
    assert queries.questioned("spark-1", simulated=False) == []
    later = queries.sweep_of("later")
    served(desk, later.sweep_id, prompt=2410.0, requests=500, at=timedelta(days=4))
    assert desk.changed() == {"traffic.prompt_tokens": (1200.0, 2410.0)}
    listed = " ".join(desk.call(decisions, "show", "1").stdout.split())
    assert (
        "traffic.prompt_tokens: was 1200.0, is 2410.0 (mean of 500 finished requests of vllm-qwen, "
        "2026-12-03 12:30 to 2026-12-03 22:30 UTC; it was of 400)"
    ) in listed
    night = markdown.document(summary_blocks(night_in(queries, later, now=EVENING)))
    assert "traffic.prompt_tokens: was 1200.0, is 2410.0" in night

    again = desk.call(decisions, "show", "1", "--reask").stdout
    assert "put a JSONL file of prompts of about 2,410 tokens at `prompts`" in again
    assert {config.name for config in load(again).configs} >= {"DFlash2 k=5", "MTP k=3"}

    desk.call(
        decisions, "accept", "1", "--reason", "asked again with longer prompts", "--premise", "traffic.prompt_tokens"
    )
    assert desk.listed()[0]["state"] == "standing"
    served(desk, later.sweep_id, prompt=2600.0, at=timedelta(days=5))
    assert desk.listed()[0]["state"] == "standing", "what was accepted drifts, too"
    served(desk, later.sweep_id, prompt=9000.0, at=timedelta(days=6))
    assert desk.listed()[0]["state"] == "questioned"


def test_a_night_of_too_few_requests_questions_nothing_and_is_said(desk: Desk) -> None:
    served(desk, desk.depth())
    desk.five_is_the_block()
    another_night(desk, prompt=9000.0, requests=29)
    (one,) = desk.listed()
    assert one["changes"] == []
    assert any("traffic: vllm-qwen, " in skipped and "finished 29 requests" in skipped for skipped in one["skipped"])
    another_night(desk, name="enough", prompt=9000.0, requests=30)
    assert set(desk.changed()) == {"traffic.prompt_tokens"}
    another_night(desk, name="paused", problem="it was paused")
    assert set(desk.changed()) == {"traffic.prompt_tokens"}, "the newest that tells it"


@pytest.mark.parametrize(
    ("recorded", "why"),
    [
        ({}, "nothing of vllm-qwen was recorded on this box by then"),
        ({"requests": 12}, "it had finished 12 requests since its start"),
        ({"problem": "cannot read http://h/metrics: refused"}, "cannot read http://h/metrics: refused"),
        ({"container": "another"}, "nothing of vllm-qwen was recorded on this box by then"),
    ],
)
def test_traffic_that_is_not_known_is_no_premise_and_why_is_said(
    desk: Desk, recorded: dict[str, Any], why: str
) -> None:
    sweep = desk.depth()
    if recorded:
        served(desk, sweep, **recorded)
    said = " ".join(desk.five_is_the_block().stdout.split())
    assert "traffic: production's is not known, so it is no premise (" in said
    assert why in said
    assert premises_of_traffic(desk) == {}
    another_night(desk, prompt=9000.0)
    assert desk.changed() == {}, "what was no premise questions nothing"


def test_a_sweep_that_names_no_production_has_no_traffic_unless_its_container_is_named(desk: Desk) -> None:
    served(desk, desk.depth())
    nameless = FILE.replace("production: {container: vllm-qwen}\n", "").replace("dflash2-depth", "nameless")
    enter(desk.store, nameless, DEPTH, box=BOX, prompts_hash=PROMPTS)
    chosen = ("nameless", "--choose", "DFlash2 k=5", "--fallback", "MTP k=3")
    said = " ".join(desk.call(decide, *chosen).stdout.split())
    assert "so it is no premise (the sweep file names no container, and --production none either)" in said
    desk.call(decide, *chosen, "--production", "vllm-qwen")
    assert desk.listed()[0]["premises"]["traffic.prompt_tokens"] == 1200.0


def test_the_traffic_of_a_sweep_is_the_newest_that_tells_it_of_the_box_before_its_last_window(desk: Desk) -> None:
    early = enter(desk.store, FILE.replace("dflash2-depth", "early"), DEPTH, box=BOX, prompts_hash=PROMPTS)
    minute = timedelta(minutes=1)
    served(desk, early, prompt=500.0, at=-9 * minute)
    served(desk, early, prompt=600.0, at=-8 * minute)
    elsewhere = replace(BOX, name="spark-2", fingerprint="c" * 64)
    served(desk, desk.depth(box=elsewhere), prompt=7000.0, at=-7 * minute)
    newest = served(desk, early, problem="it was paused", at=-6 * minute)
    sweep = desk.depth()
    kept = Decisions(desk.engine)

    def mean() -> float | None:
        found = kept.traffic(sweep, "vllm-qwen")
        return None if isinstance(found, str) else found.traffic.mean_prompt_tokens

    assert mean() == 600.0
    served(desk, sweep, requests=3, at=-5 * minute)
    assert mean() == 600.0
    served(desk, sweep, prompt=800.0, at=-4 * minute)
    served(desk, sweep, requests=3, at=-3 * minute)
    assert mean() == 800.0
    after = enter(desk.store, FILE.replace("dflash2-depth", "after"), DEPTH, box=BOX, prompts_hash=PROMPTS)
    served(desk, after, prompt=4000.0, at=minute)
    assert mean() == 800.0, "what came later was no premise"
    with desk.engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM production_intents WHERE id <> :id"), {"id": newest})
    found = kept.traffic(sweep, "vllm-qwen")
    assert not isinstance(found, str)
    assert found.traffic.unknown == "it was paused"


@pytest.mark.parametrize("form", ["args", "compose", "yaml"])
def test_what_is_exported_has_the_fallback_beside_it_as_a_comment(desk: Desk, form: str) -> None:
    desk.depth()
    desk.five_is_the_block()
    lines = desk.call(decisions, "export", "1", "--as", form).stdout.splitlines()
    shipped = "\n".join(line for line in lines if not line.startswith("#"))
    beside = "\n".join(line for line in lines if line.startswith("#"))
    assert "dflash" in shipped
    assert "mtp" not in shipped
    assert "fallback: MTP k=3" in beside
    assert "mtp" in beside.split("fallback:")[1]
    assert "on one run" in beside


def test_nothing_is_decided_without_a_window_of_the_chosen_config(desk: Desk) -> None:
    desk.depth()
    enter(desk.store, FILE.replace("dflash2-depth", "few"), {"MTP k=3": {1: [20.8]}}, box=BOX, prompts_hash=PROMPTS)
    with pytest.raises(NothingToDecide):
        desk.call(decide, "few", "--choose", "DFlash2 k=5", "--fallback", "MTP k=3")
    answer = desk.call(decide, "dflash2-depth", "--choose", "DFlash2 k=6", "--fallback", "MTP k=3")
    assert answer.exit_code == 2
    assert "DFlash2 k=" in answer.output


def test_a_decision_stays_questioned_through_any_number_of_later_nights(desk: Desk) -> None:
    decided = desk.depth()
    desk.five_is_the_block("--at", "c=1")
    desk.rule()
    elsewhere = NEW_RULE.replace("Qwen3.8-27B-NVFP4", "another")
    for night in range(51):
        given = elsewhere if night else FILE  # once, what was decided is measured again
        enter(desk.store, given.replace("name: d", f"name: night-{night}-d", 1), {}, box=BOX, prompts_hash=PROMPTS)
    drafting = {"config.speculative.draft_sample_method", "config.speculative.rejection_sample_method"}
    assert set(desk.changed()) == drafting
    found = Decisions(desk.engine).now(Decisions(desk.engine).get(1)).newer
    assert {one.settings["model"] for one in found} == {"unsloth/Qwen3.8-27B-NVFP4"}
    again = enter(desk.store, NEW_RULE.replace("drafting-rule", "again"), {}, box=BOX, prompts_hash=PROMPTS)
    newer = {one.sweep_id for one in Decisions(desk.engine).now(Decisions(desk.engine).get(1)).newer}
    assert (again in newer, decided in newer, len(newer)) == (True, False, 2), "one for each set of configs"
