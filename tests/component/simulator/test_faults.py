from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx
import pytest

FAILURES = {
    "bad_flag": (2, "vllm: error: unrecognized arguments: --no-such-flag 1"),
    "bad_spec_key": (1, "Unexpected keyword argument [type=unexpected_keyword_argument"),
    "model_missing": (1, "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name'"),
    "free_memory_low": (1, "is less than desired GPU memory utilization"),
    "gpu_oom": (1, "torch.OutOfMemoryError: CUDA out of memory."),
    "no_kv_memory": (1, "ValueError: No available memory for the cache blocks."),
    "kv_too_small": (1, "ValueError: To serve at least one request with the model's max seq len (262144)"),
    "port_in_use": (1, "OSError: [Errno 98] Address already in use"),
    "killed": (-9, "Loading safetensors checkpoint shards:  40% Completed"),
}
GENUINE = {
    "an unknown flag": (["--nope", "1"], None, 2, "vllm: error: unrecognized arguments: --nope 1"),
    "an unknown key": ([], {"method": "mtp", "num_speculative_tokens": 3, "bogus": 1}, 1, "bogus\n  Unexpected keyword argument"),
    "an unknown method": ([], {"method": "medusa", "num_speculative_tokens": 3}, 1, "Error: Unsupported speculative method"),
    "too little KV cache": (["--kv-cache-memory-bytes", "2G"], None, 1, "is larger than the available KV cache memory (2.0 GiB)"),
    "no room at all": (["--gpu-memory-utilization", "0.2"], None, 1, "No available memory for the cache blocks"),
    "too long a context": (["--max-model-len", "1m"], None, 1, "is greater than the derived max_model_len"),
}  # fmt: skip


@pytest.fixture(scope="module")
def failed(start):
    """All failing boots, run side by side: (exit code, stdout, stderr) by name."""

    def one(arguments, speculative):
        with start(*arguments, speculative=speculative) as simulator:
            code = simulator.process.wait(60)
            return code, simulator.stdout, simulator.stderr

    asked = {name: (["--sim-fault", name], None) for name in FAILURES}
    asked |= {name: (arguments, speculative) for name, (arguments, speculative, _, _) in GENUINE.items()}
    with ThreadPoolExecutor(3) as pool:
        running = {name: pool.submit(one, *how) for name, how in asked.items()}
        return {name: future.result() for name, future in running.items()}


@pytest.mark.parametrize("name", FAILURES)
def test_a_boot_failure_on_request_has_vllms_words_and_exit_code(failed, name):
    code, out, err = failed[name]
    expected, words = FAILURES[name]
    assert code == expected, err
    assert words in out + err
    assert "Starting vLLM server" not in out


@pytest.mark.parametrize("name", GENUINE)
def test_settings_that_do_not_fit_fail_by_themselves(failed, name):
    code, out, err = failed[name]
    _, _, expected, words = GENUINE[name]
    assert code == expected
    assert words in out + err


@pytest.mark.parametrize("name", ["gpu_oom", "no_kv_memory", "kv_too_small", "free_memory_low", "too little KV cache"])
def test_an_engine_failure_has_its_cause_in_the_log_and_a_generic_last_line(failed, name):
    _, out, err = failed[name]
    assert "(EngineCore pid=" in out.splitlines()[-1]
    assert "RuntimeError: Engine core initialization failed. See root cause above." in err.splitlines()[-1]


def test_a_bad_flag_prints_no_log_line_before_it_ends(failed):
    assert failed["an unknown flag"][1] == ""
    assert failed["bad_flag"][1] == ""


def test_connections_are_refused_until_ready_and_then_the_port_is_taken(start):
    with start("--sim-boot-speed", "250") as simulator:
        end = time.monotonic() + 20
        while "non-default args" not in simulator.stdout and time.monotonic() < end:
            time.sleep(0.01)
        assert not simulator.listening()
        simulator.wait_ready()
        with start(port=simulator.port) as second:
            assert second.process.wait(20) == 1
            assert "OSError: [Errno 98] Address already in use" in second.stderr
            assert second.stdout.count("INFO") < 10
        out, err = simulator.stdout, simulator.stderr
        order = ["version 0.28.0+simulated", "Initializing a V1 LLM engine", "Loading weights took 178.00 seconds",
                 "Model loading took 21.15 GiB memory", "GPU KV cache size:", "Graph capturing finished in 27 secs",
                 "init engine (profile, create kv cache, warmup model) took 108.00 s", "Starting vLLM server on"]  # fmt: skip
        places = [out.index(text) for text in order]
        assert places == sorted(places)
        assert "INFO:     Application startup complete." in err
        assert simulator.truth()["cold_start_seconds"] == pytest.approx(332)
        assert simulator.stop() == 0


def test_a_drafts_boot_has_the_reports_figures(start):
    settings = {"method": "mtp", "num_speculative_tokens": 3}
    arguments = ("--max-model-len", "262144", "--kv-cache-memory-bytes", "36G")
    with start(*arguments, speculative=settings) as simulator:
        simulator.wait_ready()
        out = simulator.stdout
        assert "Model loading took 21.97 GiB memory and 190.000000 seconds" in out
        assert "GPU KV cache size: 1,014,892 tokens, Maximum concurrency for 262,144 tokens per request: 3.87x" in out
        assert "reserved 36.0 GiB memory for KV Cache as specified by kv_cache_memory_bytes" in out
        assert "Available KV cache memory" not in out
        assert simulator.truth()["cold_start_seconds"] == pytest.approx(360)
        assert 'kv_cache_size_tokens="1014892"' in simulator.client.get("/metrics").text


def test_sigterm_ends_it_within_a_second_with_code_zero_even_in_a_stream(start):
    with start() as simulator:
        simulator.wait_ready()
        body = {"stream": True, "max_tokens": 9999, "ignore_eos": True, "messages": [{"role": "user", "content": "x"}]}
        with simulator.client.stream("POST", "/v1/chat/completions", json=body) as response:
            next(response.iter_raw())
            began = time.monotonic()
            assert simulator.stop() == 0
            assert time.monotonic() - began < 1.5


def test_hang_and_silence_and_a_deaf_engine(start):
    with ExitStack() as stack:
        hung = stack.enter_context(start("--sim-fault", "hang"))
        silent = stack.enter_context(start("--sim-fault", "silent_boot:1.5"))
        deaf = stack.enter_context(start("--sim-fault", "swallow_sigterm"))
        end = time.monotonic() + 20
        while "Graph capturing finished" not in silent.stdout and time.monotonic() < end:
            time.sleep(0.02)
        size = len(silent.stdout)
        time.sleep(0.5)
        assert len(silent.stdout) == size
        assert not silent.listening()
        deaf.wait_ready()
        deaf.process.terminate()
        silent.wait_ready()
        assert "Model loading took" in hung.stdout
        assert not hung.listening()
        assert hung.stop() == 0
        assert deaf.process.poll() is None
        assert deaf.chat().status_code == 200


def test_another_model_answers_when_asked_to(start):
    with start("--sim-fault", "wrong_model") as simulator:
        simulator.wait_ready()
        assert simulator.client.get("/v1/models").json()["data"][0]["id"] == "qwen-other"
        assert simulator.chat().status_code == 404


def test_an_engine_that_dies_in_a_window_says_so_and_exits_with_zero(start):
    with start("--sim-speed", "10", "--sim-fault", "exit_in_window:0.3") as simulator:
        simulator.wait_ready()
        response = simulator.chat(stream=True, max_tokens=5000, ignore_eos=True)
        assert '"type":"InternalServerError"' in response.text
        assert response.text.endswith("data: [DONE]\n\n")
        assert simulator.client.get("/health").status_code == 503
        assert simulator.chat().status_code == 500
        assert simulator.process.wait(5) == 0
        assert "EngineDeadError" in simulator.stdout


def test_an_engine_that_is_killed_while_serving_leaves_nothing_behind(start):
    with start("--sim-fault", "exit_137:0.1") as simulator:
        simulator.wait_ready()
        with pytest.raises(httpx.TransportError):
            simulator.chat(max_tokens=5000, ignore_eos=True)
        assert simulator.process.wait(5) == -9
        assert not simulator.listening()


# --- faults put in force while it serves ---------------------------------------------------------------------------


def until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextmanager
def in_force(served, fault):
    assert served.fault(fault).status_code == 200
    try:
        yield
    finally:
        served.client.post("/sim/fault", json={"clear": fault.split(":")[0]})


def test_foreign_load_shows_in_counters_and_gauges_and_can_be_lifted(served):
    with in_force(served, "foreign_load:500"):
        until(lambda: served.metrics()["vllm:num_requests_running"] >= 1)
        before, began = served.metrics(), time.monotonic()
        time.sleep(0.5)
        after, took = served.metrics(), time.monotonic() - began
    made = after["vllm:generation_tokens_total"] - before["vllm:generation_tokens_total"]
    assert made / took == pytest.approx(500, rel=0.2)
    until(lambda: served.metrics()["vllm:num_requests_running"] == 0)


def test_counters_begin_again_after_a_reset(served):
    served.chat()
    before = served.metrics()
    with in_force(served, "counter_reset:0"):
        until(lambda: served.metrics()["vllm:generation_tokens_total"] == 0)
    after = served.metrics()
    assert after["vllm:generation_tokens_created"] > before["vllm:generation_tokens_created"]


def test_a_stall_stops_the_tokens_for_its_time(served):
    with in_force(served, "stall:0,1"):
        time.sleep(0.02)
        began = time.monotonic()
        served.chat(max_tokens=1)
    assert time.monotonic() - began > 0.4


def test_slow_drift_makes_steps_longer_and_longer(served):
    quick = served.metrics()
    served.chat(max_tokens=60, ignore_eos=True)
    between = served.metrics()
    with in_force(served, "slow_drift:20"):
        time.sleep(0.2)
        served.chat(max_tokens=60, ignore_eos=True)
    slow = served.metrics()

    def step(a, b):
        name = "vllm:inter_token_latency_seconds"
        return (b[f"{name}_sum"] - a[f"{name}_sum"]) / (b[f"{name}_count"] - a[f"{name}_count"])

    assert step(between, slow) > 2 * step(quick, between)


@pytest.mark.parametrize(("fault", "path"), [("slow_health:0.3", "/health"), ("slow_metrics:0.3", "/metrics")])
def test_a_slow_page_answers_late(served, fault, path):
    with in_force(served, fault):
        began = time.monotonic()
        assert served.client.get(path).status_code == 200
        assert time.monotonic() - began > 0.29


def test_lost_usage_leaves_it_out_of_every_event(served):
    with in_force(served, "lost_usage"):
        events = served.stream()
    assert len(events) > 2
    assert all("usage" not in event for event in events)


def test_a_buffered_stream_comes_all_at_once(served):
    body = {"stream": True, "max_tokens": 60, "ignore_eos": True, "messages": [{"role": "user", "content": "x"}]}
    with (
        in_force(served, "buffered_stream"),
        served.client.stream("POST", "/v1/chat/completions", json=body) as response,
    ):
        pieces = list(response.iter_raw())
    assert len(pieces) == 1
    assert pieces[0].count(b'"delta"') > 5


def test_a_share_of_requests_fails_when_asked_to(served):
    with in_force(served, "error_rate:0.5"):
        codes = [served.chat(max_tokens=1).status_code for _ in range(30)]
    assert 5 <= codes.count(500) <= 25
    assert codes.count(200) + codes.count(500) == 30


def test_a_preemption_is_counted_and_the_answer_still_comes_whole(served):
    before = served.metrics()
    with in_force(served, "preempt:0.1"):
        events = served.stream(max_tokens=1500, ignore_eos=True)
    assert events[-1]["usage"]["completion_tokens"] == 1500
    after = served.metrics()
    assert after["vllm:num_preemptions_total"] - before["vllm:num_preemptions_total"] == 1


def test_a_kernel_compiled_in_a_request_is_warned_of(served):
    with in_force(served, "jit_warning:0,0.1"):
        until(lambda: "JIT compilation during inference" in served.stdout)


def test_a_fault_that_is_unknown_or_too_late_is_refused(served):
    assert served.fault("nope").status_code == 400
    assert "strikes a boot" in served.fault("hang").json()["error"]["message"]
