from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter
from itertools import pairwise

import httpx
import pytest

from nightsweep.simulator.truth import prefill_seconds

CONTENT_KEYS = {"id", "object", "created", "model", "choices", "usage"}


def test_it_says_what_it_is_everywhere(served):
    assert served.client.get("/version").json() == {"version": "0.28.0+simulated", "simulated": True}
    card = served.client.get("/v1/models").json()["data"][0]
    assert (card["id"], card["root"], card["max_model_len"]) == ("qwen", "unsloth/Qwen3.8-27B-NVFP4", 262_144)
    assert served.client.post("/ping").status_code == 200
    assert served.truth()["simulated"] is True
    assert "nightsweep simulator: nothing measured here is a real engine's number" in served.stdout


def test_a_chat_stream_has_the_shape_of_the_real_one(served):
    events = served.stream(max_tokens=60, ignore_eos=True)
    role, *content, usage = events
    assert set(role) == CONTENT_KEYS
    assert role["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    ]
    assert role["usage"]["completion_tokens"] == 0
    counts = [event["usage"]["completion_tokens"] for event in content]
    assert counts[0] == 1
    assert counts == sorted(counts)
    assert all(b - a <= 8 for a, b in pairwise(counts))
    assert len(content) < 60  # several tokens in a chunk
    assert [event["choices"][0]["finish_reason"] for event in content] == [None] * (len(content) - 1) + ["length"]
    assert usage["choices"] == []
    prompt = role["usage"]["prompt_tokens"]
    assert usage["usage"] == {"prompt_tokens": prompt, "total_tokens": prompt + 60, "completion_tokens": 60}


def test_the_text_of_an_answer_has_the_tokens_that_usage_counts(served):
    events = served.stream(max_tokens=50, ignore_eos=True)
    text = "".join(e["choices"][0]["delta"].get("content", "") for e in events if e["choices"])
    counted = served.client.post("/tokenize", json={"model": "qwen", "prompt": text}).json()
    assert counted["count"] == 50
    assert served.client.post("/detokenize", json={"tokens": counted["tokens"]}).json() == {"prompt": text}


def test_without_continuous_usage_only_the_end_has_usage(served):
    response = served.chat(stream=True, stream_options={"include_usage": True})
    assert response.text.count('"usage":{') == 1
    assert '"usage":{"prompt_tokens"' in response.text.split("\n\n")[-3]
    assert '"usage":{' not in served.chat(stream=True).text


def test_prompt_tokens_agree_with_tokenize(served):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Sort these: 3, 1, 2."}]
    counted = served.client.post("/tokenize", json={"model": "qwen", "messages": messages}).json()["count"]
    answer = served.client.post("/v1/chat/completions", json={"messages": messages, "max_tokens": 3}).json()
    assert answer["usage"]["prompt_tokens"] == counted


def test_a_whole_answer_and_the_same_one_again(served):
    one, two = (served.chat(max_tokens=30, seed=7).json() for _ in range(2))
    assert one["object"] == "chat.completion"
    assert one["choices"][0]["message"]["content"] == two["choices"][0]["message"]["content"]
    assert one["usage"]["completion_tokens"] <= 30
    assert served.chat(max_tokens=30, seed=8).json()["choices"][0] != one["choices"][0]


def test_completions_take_token_ids_and_stream_text(served):
    ids = list(range(500, 1012))
    body = {"model": "qwen", "prompt": ids, "max_tokens": 12, "stream": True, "stream_options": {"include_usage": True}}
    response = served.client.post("/v1/completions", json={**body, "ignore_eos": True})
    assert '"object":"text_completion"' in response.text
    assert '"prompt_tokens":512,"total_tokens":524,"completion_tokens":12' in response.text


def test_an_answer_ends_at_a_stop_string(served):
    answer = served.chat(max_tokens=400, ignore_eos=True, stop="return").json()
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["choices"][0]["stop_reason"] == "return"
    assert "return" not in answer["choices"][0]["message"]["content"]
    events = served.stream(max_tokens=400, ignore_eos=True, stop=["return"])
    assert [e["choices"][0]["finish_reason"] for e in events if e["choices"]][-1] == "stop"


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        ({"model": "other"}, 404, "The model `other` does not exist"),
        ({"temperature": -1}, 400, "temperature"),
        ({"min_p": 0.1}, 400, "speculative decoding"),
        ({"messages": []}, 400, "messages"),
    ],
)
def test_wrong_requests_get_vllms_errors(served, change, status, says):
    response = served.chat(**change)
    assert response.status_code == status
    assert says in response.json()["error"]["message"]
    assert response.json()["error"]["code"] == status


def test_a_body_that_is_no_json_is_refused(served):
    assert served.client.post("/v1/chat/completions", content=b"{").status_code == 400
    assert served.client.get("/nothing").status_code == 404


def test_counters_move_with_what_was_served(served):
    before = served.metrics()
    events = served.stream("A prompt of its own.", max_tokens=100, ignore_eos=True)
    after = served.metrics()
    delta = {key: after[key] - before[key] for key in after}
    steps = len(events) - 3  # less role, first token and usage
    assert delta["vllm:generation_tokens_total"] == 100
    assert delta["vllm:spec_decode_num_drafts_total"] == steps
    assert delta["vllm:spec_decode_num_draft_tokens_total"] == 7 * steps
    by_position = [delta[f'vllm:spec_decode_num_accepted_tokens_per_pos_totalposition="{i}"'] for i in range(7)]
    assert sum(by_position) == delta["vllm:spec_decode_num_accepted_tokens_total"] >= 100 - 1 - steps
    assert delta["vllm:iteration_tokens_total_count"] == steps + 1
    assert delta["vllm:inter_token_latency_seconds_count"] == steps
    assert delta['vllm:request_success_totalfinished_reason="length"'] == 1
    assert after["vllm:num_requests_running"] == 0


def test_a_client_that_goes_away_ends_its_request_at_once(served):
    with socket.create_connection(("127.0.0.1", served.port)) as sock:
        body = b'{"stream":true,"max_tokens":50000,"ignore_eos":true,"messages":[{"role":"user","content":"go"}]}'
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
        sock.sendall(head + body)
        while b"completion" not in sock.recv(4096):
            pass
        assert served.metrics()["vllm:num_requests_running"] == 1
    end = time.monotonic() + 2
    while served.metrics()["vllm:num_requests_running"] and time.monotonic() < end:
        time.sleep(0.01)
    assert served.metrics()["vllm:num_requests_running"] == 0


def test_a_prefill_takes_its_time_once_and_is_found_again(served):
    ids = list(range(2000, 14_000))
    body = {"model": "qwen", "prompt": ids, "max_tokens": 1}
    before = served.metrics()
    began = time.monotonic()
    served.client.post("/v1/completions", json=body)
    took = time.monotonic() - began
    assert took > prefill_seconds("gb10", 12_000) / 40 * 0.95
    again = time.monotonic()
    served.client.post("/v1/completions", json=body)
    assert time.monotonic() - again < took
    after = served.metrics()
    hit = 'vllm:prompt_tokens_by_source_totalsource="local_cache_hit"'
    assert after[hit] - before[hit] == 11_984
    assert served.client.post("/reset_prefix_cache").json() == {"success": True}


def test_many_streams_at_a_high_rate_cost_little_and_keep_the_pace(served):
    """64 streams, and beside them a loop that only sleeps: a busy machine is not blamed on the engine."""

    async def load(seconds: float) -> Counter[str]:
        seen: Counter[str] = Counter()
        body = {"stream": True, "max_tokens": 5000, "ignore_eos": True}
        limits = httpx.Limits(max_connections=64)

        async def one(client: httpx.AsyncClient, number: int) -> None:
            messages = [{"role": "user", "content": f"Prompt {number}"}]
            async with client.stream("POST", "/v1/chat/completions", json={**body, "messages": messages}) as response:
                async for piece in response.aiter_raw():
                    seen["chunks"] += piece.count(b"data: ")

        async with httpx.AsyncClient(base_url=served.url, limits=limits, timeout=30) as client:
            tasks = [asyncio.create_task(one(client, number)) for number in range(64)]
            await asyncio.sleep(seconds)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return seen

    idle_late = []
    done = threading.Event()

    def idle() -> None:
        while not done.is_set():
            due = time.monotonic() + 0.015
            time.sleep(0.015)
            idle_late.append(time.monotonic() - due > 0.0045)

    before, cpu = served.truth(), _cpu(served)
    thread = threading.Thread(target=idle)
    thread.start()
    seen = asyncio.run(load(2.0))
    done.set()
    thread.join()
    after = served.truth()
    steps = after["paced_steps"] - before["paced_steps"]
    late = (after["late_steps"] - before["late_steps"]) / steps
    assert seen["chunks"] > 1500
    assert (_cpu(served) - cpu) / (seen["chunks"] / 1000) < 0.25
    assert late <= sum(idle_late) / len(idle_late) * 3 + 0.1


def _cpu(served) -> float:
    page = served.client.get("/metrics").text
    return float(next(line for line in page.splitlines() if line.startswith("process_cpu_seconds_total ")).split()[1])
