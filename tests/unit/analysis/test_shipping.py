"""A decision as what is shipped."""

from __future__ import annotations

import os
import subprocess
from decimal import Decimal

import pytest
import yaml

from nightsweep.analysis.import_file import sweep_file
from nightsweep.analysis.reask import entry_of
from nightsweep.analysis.shipping import Shipped, exported
from nightsweep.engine.vllm import VllmEngine
from nightsweep.plan.model import SweepPlan
from nightsweep.plan.sweepfile import load
from tests.unit.analysis.test_premises import a_decision

ENV = '    env: {A: "b $c", TOKEN_OF_HF: {from_env: HF_TOKEN}}\n'
SHARED = "name: depth\nengine: {kind: vllm, host: process, model: org/m, args: {seed: 1}, env: {B: '1'}}\n"
PROBE = "probe: {concurrency: [1], temperature: [0.7]}\n"


def a_shipped(plan: SweepPlan, name: str, *, file: str) -> Shipped:
    """Return a config as the command line hands it over."""
    (config,) = (one for one in plan.configs if one.name == name)
    return Shipped(
        config.name,
        config.engine.image,
        VllmEngine().command(config, listen_host="127.0.0.1", port=8000),
        config.engine.env,
        entry_of(config, file_text=file),
    )


def shipped(form: str, *, configs: str, file: str = SHARED, names: tuple[str, str] = ("c", "d")) -> str:
    text = f"{file}configs:\n{configs}{PROBE}"
    plan = load(text)
    chosen, fallback = (a_shipped(plan, name, file=text) for name in names)
    return exported(a_decision(), chosen, fallback, form=form, state="questioned")


DOCKER = SHARED.replace("host: process", "host: docker, image: img:1")
DRAFT = "  - name: c\n    speculative: {method: dflash, model: $x}\n"
OTHER = "  - name: d\n    speculative: {method: mtp}\n"


def body_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def beside(text: str) -> list[str]:
    return text.split("# fallback: d\n")[1].splitlines()


def test_an_export_says_how_the_decision_stands_and_has_the_fallback_as_a_comment() -> None:
    text = shipped("args", configs=DRAFT + OTHER)
    assert text.startswith("# decision 1 (questioned)")
    assert body_of(text)[-1] == '--speculative-config \'{"method":"dflash","model":"$x"}\''
    assert all(line.startswith("# ") for line in beside(text))
    assert beside(text)[-1] == '# --speculative-config \'{"method":"mtp"}\''


def test_compose_reads_no_dollar_as_its_own() -> None:
    assert any("$$x" in line for line in shipped("compose", configs=DRAFT + OTHER).splitlines())


def test_a_compose_service_has_the_environment_and_of_a_secret_only_where_it_is_taken_from() -> None:
    text = shipped("compose", configs=DRAFT + ENV + OTHER, file=DOCKER)
    service = yaml.safe_load(text)
    assert service["image"] == "img:1"
    assert service["environment"] == {"B": "1", "A": "b $$c", "TOKEN_OF_HF": "${HF_TOKEN}"}
    assert yaml.safe_load("\n".join(line[2:] for line in beside(text)))["environment"] == {"B": "1"}


def test_a_shell_that_runs_the_arguments_of_a_process_sets_its_environment() -> None:
    words = "  - name: c\n    command: [env]\n" + ENV + OTHER
    lines = body_of(shipped("args", configs=words))
    assert lines[:3] == ["B=1 \\", "A='b $c' \\", 'TOKEN_OF_HF="${HF_TOKEN}" \\']
    assert lines[3].startswith("env ")
    ran = subprocess.run(
        ["/bin/sh", "-c", "\n".join([*lines[:3], "env"])],
        env={"HF_TOKEN": "hidden", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"B=1", "A=b $c", "TOKEN_OF_HF=hidden"} <= set(ran.stdout.splitlines())


def test_arguments_of_a_container_have_image_and_environment_in_a_comment_since_no_shell_starts_them() -> None:
    lines = shipped("args", configs=DRAFT + ENV + OTHER, file=DOCKER).splitlines()
    at = lines.index("# chosen: c")
    assert lines[at + 1 : at + 3] == [
        "# image: img:1",
        "# environment: B=1 A='b $c' TOKEN_OF_HF=\"${HF_TOKEN}\"",
    ]
    assert lines[at + 3].startswith("org/m ")


@pytest.mark.parametrize("form", ["args", "compose", "yaml"])
@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("    image: img:2\n", "img:2"),
        ("    env: {A: other}\n", "other"),
        ("    container: {ipc: private}\n", "private"),
    ],
)
def test_the_fallback_stands_beside_a_choice_of_the_same_command_line(form: str, own: str, said: str) -> None:
    text = shipped(form, configs=f"  - name: c\n  - name: d\n{own}", file=DOCKER)
    assert said not in text.split("# fallback: d\n")[0]
    assert any(said in line for line in beside(text))


@pytest.mark.parametrize(
    "own",
    [
        "    args: {seed: null, max-num-seqs: 8}\n",
        '    env: {A: "b $c", B: null, TOKEN_OF_HF: {from_env: HF_TOKEN}}\n',
        "    image: img:2\n    model: org/other\n    container: {ipc: private, volumes: ['/a:/b']}\n",
        "    command: [vllm, serve]\n    speculative: {method: mtp, num_speculative_tokens: 2}\n",
    ],
)
def test_the_yaml_is_an_entry_of_its_sweep_file_that_gives_the_same_config(own: str) -> None:
    file = f"{DOCKER}configs:\n  - name: c\n{own}  - name: d\n{PROBE}"
    text = shipped("yaml", configs=f"  - name: c\n{own}  - name: d\n", file=DOCKER)
    again = load(f"{DOCKER}configs:\n{text}{PROBE}")
    assert again.configs == tuple(one for one in load(file).configs if one.name == "c")


def test_the_yaml_of_an_imported_config_has_the_arguments_that_were_decided_on() -> None:
    documents = [
        (name, {"engine": "vllm", "model": "org/m", "args": {"max-model-len": 8192, "max-num-seqs": seats}})
        for name, seats in (("c", 8), ("d", 16))
    ]
    file = sweep_file("theirs", documents, cells=[(1, Decimal("0.7"))])
    plan = load(file)
    chosen, fallback = (a_shipped(plan, name, file=file) for name in ("c", "d"))
    text = exported(a_decision(), chosen, fallback, form="yaml", state="standing")
    assert yaml.safe_load(text) == [{"name": "c", "args": {"max-num-seqs": 8}}]
    assert "#   args:" in text
    assert "#     max-num-seqs: 16" in text
