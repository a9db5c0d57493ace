"""Text, exit code, flags, readiness and time together decide why a boot failed."""

from __future__ import annotations

from typing import Any

import pytest

from nightsweep.engine.failures import classify, verdict
from tests.unit.engine.data import evidence, lines_of_file

READY = "(APIServer pid=1) INFO:     Application startup complete."
LOADING = "(EngineCore pid=7) INFO 11-29 16:16:32 [gpu_model_runner.py:5400] Starting to load model m..."
BUSY_PORT = "OSError: [Errno 98] Address already in use"
OOM = "(EngineCore pid=7) ERROR 11-29 16:16:40 [core.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"


def test_137_alone_is_a_kill_by_somebody_and_never_an_oom() -> None:
    failure = classify(evidence([LOADING], exit_code=137))
    assert (failure.kind, failure.stage) == ("killed", "load")


def test_the_hosts_oom_flag_makes_it_the_oom_killer() -> None:
    lines = lines_of_file("failures", "vllm-0.32.0-cpu-docker-mem700m.log")
    assert classify(evidence(lines, exit_code=137, oom_killed=True)).kind == "host_oom_killed"


def test_a_kill_of_ours_is_no_failure_of_the_config() -> None:
    lines = lines_of_file("failures", "vllm-0.32.0-cpu-docker-stop-15s.log")
    assert classify(evidence(lines, exit_code=137, killed_by_us=True)).kind == "stopped"


def test_a_kill_after_the_timeout_is_a_timeout() -> None:
    failure = classify(evidence([LOADING], exit_code=137, killed_by_us=True, timed_out=True, seconds=1200.0))
    assert (failure.kind, failure.stage) == ("boot_timeout", "load")
    assert "1200 s" in failure.remedy


def test_a_cause_in_the_log_outweighs_the_timeout_that_followed() -> None:
    lines = lines_of_file("failures", "vllm-0.26.0-cuda-kvsmall.log")
    assert classify(evidence(lines, killed_by_us=True, timed_out=True)).kind == "kv_too_small"


def test_exit_code_zero_of_a_failed_sglang_does_not_hide_the_cause() -> None:
    lines = lines_of_file("failures", "sglang-0.5.23-fail-no-kv.log")
    assert classify(evidence(lines, exit_code=0), kind="sglang").kind == "no_kv_memory"


def test_an_engine_that_ends_with_zero_while_it_serves_has_died() -> None:
    lines = lines_of_file("bootlogs", "vllm-0.26.0-cuda-none_kill.log")
    assert classify(evidence(lines, exit_code=0, ready=True)).kind == "engine_died"


def test_the_first_cause_is_told_and_not_the_last_traceback() -> None:
    failure = classify(evidence(lines_of_file("failures", "vllm-0.32.0-cpu-tiny-override.log"), exit_code=1))
    assert "No available memory for the cache blocks" in failure.lines[0]


def test_out_of_memory_while_serving_belongs_to_the_probe() -> None:
    failure = classify(evidence([READY, OOM], exit_code=1, ready=True))
    assert (failure.kind, failure.stage) == ("oom_during_probe", "serving")


def test_out_of_memory_at_the_first_look_at_the_device_is_somebody_elses_memory() -> None:
    lines = ['  File "gpu_worker.py", line 1, in init_device', "torch.AcceleratorError: CUDA error: out of memory"]
    failure = classify(evidence(lines, exit_code=1))
    assert (failure.kind, failure.retry) == ("gpu_memory_busy", "after_memory")


def test_a_quantisation_error_before_the_target_is_read_is_the_targets_own() -> None:
    error = "(EngineCore pid=7) ERROR 11-29 16:16:40 [core.py:1] KeyError: 'layers.0.mlp.w13_weight_scale'"
    assert classify(evidence([LOADING, error], exit_code=1)).kind == "model_quant_mismatch"
    read = "(EngineCore pid=7) INFO 11-29 16:16:39 [default_loader.py:1] Loading weights took 2.00 seconds"
    assert classify(evidence([LOADING, read, error], exit_code=1)).kind == "draft_quant_mismatch"


def test_a_cold_compile_cache_makes_a_small_kv_cache_worth_a_second_boot() -> None:
    cold = (
        "(EngineCore pid=7) INFO 11-29 16:16:39 [backends.py:1] Compiling a graph for compile range (1, 2048) takes 9 s"
    )
    error = lines_of_file("failures", "vllm-fail-kv-too-small.log")
    assert classify(evidence(error)).retry == "never"
    assert classify(evidence([cold, *error])).retry == "same"


def test_a_remedy_says_the_numbers() -> None:
    failure = classify(evidence(lines_of_file("failures", "vllm-0.26.0-cuda-kvsmall.log")))
    assert failure.remedy.startswith(
        "needs 4.5 GiB of KV cache for 32,768 tokens, has 3.71: lower max-model-len to 27,040"
    )
    assert failure.numbers == {"length": 32768.0, "needed": 4.5, "available": 3.71, "fits": 27040.0}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ('exec: "vllm": executable file not found in $PATH: unknown', "container_start_failed"),
        (
            "Bind for 0.0.0.0:8000 failed: port is already allocated",
            "port_in_use",
        ),
        ("nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0", "cuda_init_failed"),
        ("exec /usr/bin/python3: exec format error", "image_arch_mismatch"),
        ("image org/gone:1 is not here and could not be pulled: lookup registry: no such host", "image_missing"),
        ("something nobody ever saw", "container_start_failed"),
    ],
)
def test_what_the_host_refused_is_classed_by_its_own_words(error: str, kind: str) -> None:
    failure = classify(evidence(launch_error=error))
    assert (failure.kind, failure.stage, failure.lines) == (kind, "launch", (error,))


def test_an_unknown_exception_is_unknown_with_its_line() -> None:
    failure = classify(evidence([LOADING, "ZeroDivisionError: division by zero"], exit_code=1))
    assert (failure.kind, failure.lines) == ("unknown", ("ZeroDivisionError: division by zero",))


def test_nothing_at_all_is_unknown_and_says_the_exit_code() -> None:
    failure = classify(evidence(exit_code=3))
    assert failure.kind == "unknown"
    assert "3" in failure.remedy


def test_a_worker_that_is_killed_without_a_word_leaves_an_unknown_start_failure() -> None:
    line = "Exception: WorkerProc initialization failed due to an exception in a background process."
    assert classify(evidence([LOADING, line], exit_code=1)).kind == "unknown_engine_init"


def test_a_warning_about_the_distributed_port_is_harmless() -> None:
    harmless = "(EngineCore pid=7) WARNING 11-29 16:16:39 [network_utils.py:1] Address already in use. Retrying with a new port."
    assert verdict([harmless, READY]).state == "healthy"
    assert verdict([BUSY_PORT]).state == "failed"


def test_what_alarmed_before_readiness_is_no_failure() -> None:
    assert verdict([OOM, READY]).state == "healthy"


def test_a_long_wait_of_processes_is_no_failure_until_it_repeats() -> None:
    header = "(EngineCore pid=7) ERROR 11-29 16:16:39 [shm_broadcast.py:1] "
    wait = header + "No available shared memory broadcast block found in 60 seconds."
    assert verdict([wait]).state == "unknown"
    assert verdict([wait] * 3).state == "failed"


def test_a_secret_in_a_deciding_line_is_hidden() -> None:
    failure = classify(evidence(["vllm serve: error: unrecognized arguments: --x api_key='s3cret'"], exit_code=2))
    assert "s3cret" not in "".join(failure.lines) + failure.remedy


SHUTTING_DOWN = "(APIServer pid=1) INFO:     Shutting down"
DEAD = "(APIServer pid=1) ERROR 11-29 16:20:00 [async_llm.py:1] EngineDeadError: EngineCore encountered an issue."


@pytest.mark.parametrize("exit_code", [0, 143, 137, -15, None])
def test_one_that_served_and_says_that_it_was_told_to_stop_was_stopped_by_another_hand(exit_code: int | None) -> None:
    failure = classify(evidence([READY, SHUTTING_DOWN], exit_code=exit_code, ready=True))
    assert (failure.kind, failure.stage, failure.retry) == ("killed", "serving", "outside")
    assert "says nothing of its config" in failure.remedy


def test_one_that_another_hand_took_away_was_stopped_by_it_even_in_a_boot() -> None:
    failure = classify(evidence([LOADING], taken_away=True))
    assert (failure.kind, failure.stage, failure.retry) == ("killed", "load", "outside")


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        ([READY, DEAD, SHUTTING_DOWN], {"exit_code": 0}),  # it shuts down because its core died
        ([READY, OOM, SHUTTING_DOWN], {"exit_code": 0}),
        ([READY, OOM], {"taken_away": True}),  # the watchdog cleared away what had died
        ([READY, SHUTTING_DOWN], {"exit_code": 137, "oom_killed": True}),
        ([READY, SHUTTING_DOWN], {"exit_code": 1}),
        ([READY], {"exit_code": 137}),  # the kernel's OOM killer looks the same
        ([READY], {"exit_code": 0}),
        ([LOADING, SHUTTING_DOWN], {"exit_code": 0, "ready": False}),
    ],
)
def test_what_may_be_the_configs_own_doing_is_no_other_hands(lines: list[str], facts: dict[str, Any]) -> None:
    assert classify(evidence(lines, **{"ready": True, **facts})).retry != "outside"
