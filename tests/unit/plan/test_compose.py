"""A sweep file written from a container says what the container runs; nobody retypes a production command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

import pytest

from nightsweep.engine.registry import engine_for
from nightsweep.errors import InvalidPlan
from nightsweep.plan.commandline import read_command
from nightsweep.plan.compose import sweep_file_text
from nightsweep.plan.model import ContainerSpec, EngineConfig, EnvValue, SecretRef, SweepPlan
from nightsweep.plan.sweepfile import load

VLLM, SGLANG = "vllm/vllm-openai:v0.28.0", "lmsysorg/sglang:v0.5.23"
SERVE = ("vllm", "serve")
NVIDIA = ("/opt/nvidia/nvidia_entrypoint.sh",)

# Command lines as people run them (public scripts and compose files, 2025 and 2026), shortened: image, entry point, command.
COMMANDS: dict[str, tuple[str, Sequence[str], str]] = {
    "a spark with DFlash2": (
        VLLM,
        SERVE,
        "unsloth/Qwen3.8-27B-NVFP4 --served-model-name qwen3.8-27b --max-model-len 262144 --kv-cache-memory-bytes 36G "
        "--reasoning-parser qwen3 --enable-auto-tool-choice --tool-call-parser qwen3_coder --speculative-config "
        """'{"method":"dflash","model":"z-lab/Qwen3.8-27B-DFlash2","num_speculative_tokens":7,"""
        """"draft_sample_method":"probabilistic","rejection_sample_method":"block"}'""",
    ),
    "EAGLE-3 with escaped quotes and equals signs": (
        VLLM,
        SERVE,
        "meta/Llama --port 8888 --tensor-parallel-size=8 --gpu-memory-utilization 0.95 --kv-cache-dtype fp8 --block-size=32 "
        '--no-enable-prefix-caching --speculative-config "{\\"model\\":\\"org/eagle3\\",\\"method\\":\\"eagle3\\",'
        '\\"num_speculative_tokens\\":3,\\"draft_tensor_parallel_size\\":1}"',
    ),
    "short flags": (VLLM, SERVE, 'org/m -tp 2 -O3 -q modelopt -sc \'{"method": "mtp", "num_speculative_tokens": 3}\''),
    "no speculation, bare flags before the model": (
        VLLM,
        SERVE,
        "--enforce-eager --trust-remote-code org/m --dtype bfloat16",
    ),
    "a command of its own": (VLLM, NVIDIA, "vllm serve /models/tiny-coder --enforce-eager --max-model-len 4096"),
    "the API server's module": (
        VLLM,
        (),
        "python3 -m vllm.entrypoints.openai.api_server --model org/m --max-num-seqs 64 --disable-log-requests",
    ),
    "n-gram by separate flags": (VLLM, SERVE, "org/m --spec-method ngram --spec-tokens 4 --max-logprobs -1"),
    "a config given key by key": (
        VLLM,
        SERVE,
        "org/m --speculative-config.method ngram --speculative-config.num_speculative_tokens 4 "
        "--compilation-config.cudagraph_mode FULL_AND_PIECEWISE --compilation-config.use_inductor true",
    ),
    "JSON with quotes and blanks in it": (
        VLLM,
        SERVE,
        """org/m --hf-overrides '{"rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "note": "it'"'"'s \\"q\\""}' """
        """--default-chat-template-kwargs '{"enable_thinking": false}' --chat-template '/t/my template.jinja'""",
    ),
    "several values after one flag": (
        VLLM,
        SERVE,
        "org/m --lora-modules a=/l/a b=/l/b --cudagraph-capture-sizes 1 2 4 8",
    ),
    "a version that looks like a number": (VLLM, SERVE, "org/m --revision 1.10 --served-model-name 007 --seed 0"),
    "a shell with continued lines": (
        VLLM,
        ("/bin/bash", "-lc"),
        shlex.quote("set -e; export A=1 && exec vllm serve org/m \\\n  --max-model-len 8192 \\\n  --port 9000"),
    ),
    "a batch schedule of draft lengths": (
        VLLM,
        SERVE,
        """org/m --speculative-config '{"method":"dflash","model":"org/d","num_speculative_tokens":7,"""
        """"num_speculative_tokens_per_batch_size":[[1,4,7],[5,64,3]]}'""",
    ),
    "SGLang with DSpark": (
        SGLANG,
        NVIDIA,
        "python3 -m sglang.launch_server --model-path org/m --host 0.0.0.0 --port 30000 --tp-size 1 --mem-fraction-static 0.50 "
        "--cuda-graph-max-bs 4 --speculative-algorithm DSPARK --speculative-draft-model-path org/d "
        "--speculative-dspark-block-size 7 --speculative-draft-model-quantization unquant --trust-remote-code",
    ),
    "SGLang with EAGLE": (
        SGLANG,
        (),
        "sglang serve --model-path org/m --context-length 65536 --speculative-algorithm EAGLE --speculative-num-steps 3 "
        "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4 --cuda-graph-bs 1 2 4 --disable-radix-cache",
    ),
    "SGLang without speculation": (SGLANG, NVIDIA, "python3 -m sglang.launch_server --model org/m --enable-metrics"),
}


def written(
    image: str,
    entrypoint: Sequence[str],
    command: Sequence[str],
    *,
    env: Mapping[str, EnvValue] | None = None,
    container: ContainerSpec | None = None,
    ports: Mapping[int, int] | None = None,
) -> str:
    return sweep_file_text(
        container_name="prod",
        image=image,
        entrypoint=entrypoint,
        command=command,
        env=env,
        container=container,
        ports=ports,
        restart_policy="unless-stopped",
    )


def of(command: str, **more: object) -> SweepPlan:
    return load(written(VLLM, SERVE, shlex.split(command), **more))  # type: ignore[arg-type]


def command_of(config: EngineConfig) -> tuple[str, ...]:
    return engine_for(config.engine.kind).command(config, listen_host="0.0.0.0", port=8000)


@pytest.mark.parametrize("name", COMMANDS)
def test_file_to_command_and_back_to_file_is_the_same_config(name: str) -> None:
    image, entrypoint, line = COMMANDS[name]
    first = load(written(image, entrypoint, shlex.split(line)))
    now = first.configs[0]
    replaced = now.engine.container.entrypoint
    second = load(written(image, replaced or entrypoint, command_of(now)))

    if replaced is None:
        assert second.configs[0].fingerprint == now.fingerprint
    else:  # what had to be replaced the first time is the container's own entry point the second time
        kept = {key: value for key, value in now.document.items() if key != "container"}
        assert dict(second.configs[0].document) == kept


@pytest.mark.parametrize("name", COMMANDS)
def test_every_word_of_the_command_is_in_the_engine_s_command_again(name: str) -> None:
    image, entrypoint, line = COMMANDS[name]
    plan = load(written(image, entrypoint, shlex.split(line)))
    words = " ".join(command_of(plan.configs[0]))

    flags = {word.partition("=")[0] for word in re.findall(r"(?<!\S)--[a-z][\w.=-]*", line)}
    own = {"--port", "--host", "--model", "--model-path", "--spec-method", "--spec-tokens"}
    for flag in flags - own:
        if not flag.startswith("--speculative-config"):
            assert re.search(rf"(?<!\S){re.escape(flag)}(?!\S)", words), flag
    assert plan.configs[0].engine.model in words


@pytest.mark.parametrize("name", COMMANDS)
def test_what_runs_now_stands_beside_no_speculation(name: str) -> None:
    image, entrypoint, line = COMMANDS[name]
    plan = load(written(image, entrypoint, shlex.split(line)))

    assert plan.configs[0].name == "as it runs now"
    assert [config.speculative for config in plan.configs[1:]] == ([None] if plan.configs[0].speculative else [])
    assert plan.production is not None
    assert plan.production.container == "prod"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_grid_in_the_comment_is_valid_once_it_is_uncommented(name: str) -> None:
    image, entrypoint, line = COMMANDS[name]
    text = written(image, entrypoint, shlex.split(line))

    uncommented = re.sub(r"^  # (- name|  speculative|  grid)", r"  \1", text, flags=re.MULTILINE)

    assert uncommented.count("- name") == text.count("- name")
    assert len(load(uncommented).configs) > len(load(text).configs) + 2


def test_speculative_settings_keep_the_engine_s_own_words() -> None:
    image, entrypoint, line = COMMANDS["SGLang with DSpark"]
    plan = load(written(image, entrypoint, shlex.split(line)))

    assert plan.configs[0].speculative == {
        "algorithm": "DSPARK",
        "draft_model_path": "org/d",
        "dspark_block_size": 7,
        "draft_model_quantization": "unquant",
    }
    assert plan.configs[0].engine.command == ("python3", "-m", "sglang.launch_server")


def test_numbers_switches_and_json_are_written_as_what_they_are() -> None:
    plan = of(
        "org/m --max-model-len 8192 --gpu-memory-utilization=0.90 --enable-x --no-enable-y --kv-cache-memory-bytes 36G"
    )

    assert plan.configs[0].engine.args == {
        "max-model-len": 8192,
        "gpu-memory-utilization": 0.9,
        "enable-x": True,
        "enable-y": False,
        "kv-cache-memory-bytes": "36G",
    }


def test_the_container_s_own_settings_and_published_port_are_carried_over() -> None:
    container = ContainerSpec(
        gpus="device=1",
        ipc="host",
        shm_size=16 * 2**30,
        memory=1000,
        volumes=("/srv/hf:/root/.cache/huggingface:ro", "f" * 64 + ":/data"),
        network="inference_default",
        ulimits=("memlock=-1:-1",),
        workdir="/vllm-workspace",
        init=False,
    )
    plan = of("org/m --port 9999", container=container, ports={9999: 8080})

    engine = plan.configs[0].engine
    assert engine.port == 8080
    assert engine.container == ContainerSpec(
        gpus="device=1",
        ipc="host",
        shm_size=16 * 2**30,
        memory=1000,
        volumes=("/srv/hf:/root/.cache/huggingface:ro",),
        network="inference_default",
        ulimits=("memlock=-1:-1",),
    )


def test_the_image_s_own_variables_stay_out_and_the_user_s_are_kept() -> None:
    env = {
        "PATH": "/usr/bin",
        "CUDA_VERSION": "13.0",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "LD_LIBRARY_PATH": "/x",
        "CUDA_VISIBLE_DEVICES": "0",
        "VLLM_ATTENTION_BACKEND": "FLASHINFER",
        "NCCL_P2P_DISABLE": "1",
        "ODD": 'a: "b" # {c}',
    }

    assert of("org/m", env=env).configs[0].engine.env == {
        "CUDA_VISIBLE_DEVICES": "0",
        "VLLM_ATTENTION_BACKEND": "FLASHINFER",
        "NCCL_P2P_DISABLE": "1",
        "ODD": 'a: "b" # {c}',
    }


def test_secrets_are_written_as_names_and_never_as_values() -> None:
    env: dict[str, EnvValue] = {"HF_TOKEN": SecretRef("HF_TOKEN"), "MY_KEY": "hunter2", "ODD": "hf_AbCdEfGhIjKlMn"}
    text = written(VLLM, SERVE, ["org/m", "--api-key", "sk-hunter2hunter2", "--other-secret=hunter2"], env=env)

    assert "hunter2" not in text
    assert "hf_AbC" not in text
    plan = load(text)
    assert plan.configs[0].engine.env == {
        name: SecretRef(name) for name in ("HF_TOKEN", "MY_KEY", "ODD", "VLLM_API_KEY")
    }
    assert "# note: --api-key is taken from the variable VLLM_API_KEY" in text
    assert "# note: --other-secret is left out" in text


def test_a_shell_s_script_gives_its_variables_and_says_what_it_did_before() -> None:
    script = 'sleep 3 && HF_HOME=/hf exec vllm serve "$MODEL" --max-model-len ${LEN:-4096} --port $PORT | tee log'
    served = read_command(entrypoint=(), command=("bash", "-c", script), env={"MODEL": "org/m", "PORT": "9000"})

    assert (served.model, served.args, served.port) == (
        "org/m",
        {"max-model-len": 4096},
        9000,
    )
    assert served.env == {"HF_HOME": "/hf"}
    assert served.prefix == ("vllm", "serve")
    assert served.notes == ["shell commands before the engine are left out: sleep 3"]


def test_an_entry_point_that_is_a_shell_is_replaced() -> None:
    plan = load(written(VLLM, ("sh", "-c"), ["vllm serve org/m"]))

    assert plan.configs[0].engine.container.entrypoint == ("vllm", "serve")
    assert plan.configs[0].engine.command == ()


def test_an_image_s_own_script_is_taken_to_start_the_engine_in_its_name() -> None:
    text = written("registry/my-vllm:3", ("/start.sh",), ["--model", "org/m"])

    assert "# note: the image's entry point (/start.sh) is taken to start vllm" in text
    assert load(text).configs[0].engine.command == ()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["nginx", "-g", "daemon off;"], "no vLLM or SGLang in this command: nginx"),
        (["bash", "-c", "sleep infinity"], "no `vllm serve` or `sglang.launch_server`"),
        (["bash", "-c", "vllm serve 'org/m"], "cannot be read"),
        (["vllm", "serve", "--max-model-len", "8192"], "the command names no model"),
        (["vllm", "serve", "org/m", "--speculative-config", "{method: mtp}"], "the quotes may have been lost"),
    ],
)
def test_a_container_that_runs_no_readable_engine_is_refused_with_the_reason(command: list[str], says: str) -> None:
    with pytest.raises(InvalidPlan, match=re.escape(says)):
        written("some/image", (), command)


def test_streams_that_the_engine_would_not_run_at_once_are_not_asked_for() -> None:
    plan = of("org/m --max-num-seqs 4 --max-model-len 4096")

    assert plan.probe.concurrency == (1, 2, 4)
    assert plan.probe.prefill is not None
    assert plan.probe.prefill.tokens == 1000, "12,000 tokens do not fit into the context"
    assert plan.warnings == ()


@pytest.mark.parametrize("length", ["128", "512", "1024", "2048", "4096", "8k", "32K", "auto"])
@pytest.mark.parametrize("seats", ["1", "8"])
def test_a_file_written_from_a_container_asks_for_nothing_that_its_arguments_rule_out(length: str, seats: str) -> None:
    plan = of(f"org/m --max-model-len {length} --max-num-seqs {seats}")

    assert plan.warnings == ()
    assert max(plan.probe.concurrency) <= int(seats)
