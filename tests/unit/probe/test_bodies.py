from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from nightsweep.engine.dialects import sglang_dialect, vllm_dialect
from nightsweep.plan.model import SamplingSpec
from nightsweep.ports import Secret, Target
from nightsweep.probe.bodies import PromptOrder, headers_of, prompt_fields, sampling_of, streaming_body, words_of

TARGET = Target("http://e", "http://e", "m", vllm_dialect("0.32.0"))


def test_every_sampling_parameter_is_sent_explicitly() -> None:
    body = json.loads(
        streaming_body(TARGET, "hi", sampling=sampling_of(SamplingSpec(), temperature=0.7), continuous=True)
    )
    assert body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.7,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "max_tokens": 1024,
    }


def test_a_seed_is_sent_only_when_set_and_moves_on() -> None:
    assert "seed" not in sampling_of(SamplingSpec(), temperature=1.0)
    found = sampling_of(SamplingSpec(min_p=0.1, seed=7), temperature=1.0, index=5)
    assert (found["min_p"], found["seed"]) == (0.1, 12)


def test_the_key_is_a_header_and_the_stream_is_not_compressed() -> None:
    headers = headers_of(Target("http://e", "http://e", "m", TARGET.dialect, api_key=Secret("s3cret")))
    assert headers["authorization"] == "Bearer s3cret"
    assert headers["accept-encoding"] == "identity"
    assert "authorization" not in headers_of(TARGET)


def test_prompts_fit_either_api() -> None:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    assert prompt_fields(messages, api="chat") == {"messages": messages}
    assert prompt_fields(messages, api="completions") == {"prompt": "be brief\n\nhi"}
    assert prompt_fields([5, 6], api="completions") == {"prompt": [5, 6]}
    assert prompt_fields([5, 6], api="chat") == {"messages": [{"role": "user", "content": words_of([5, 6])}]}


@given(ids=st.lists(st.integers(min_value=0, max_value=200_000), unique=True, max_size=50))
def test_different_ids_become_different_words(ids: list[int]) -> None:
    assert len(set(words_of(ids).split())) == len(ids)


@given(count=st.integers(1, 20), first=st.integers(0, 60), more=st.integers(0, 40), seed=st.integers(0, 1000))
def test_the_prompt_order_does_not_depend_on_where_a_window_enters_it(
    count: int, first: int, more: int, seed: int
) -> None:
    whole = PromptOrder(count, seed=seed, first=0)
    order = [whole.next() for _ in range(first + more)]
    entered = PromptOrder(count, seed=seed, first=first)
    assert [entered.next() for _ in range(more)] == order[first:]


@given(count=st.integers(1, 30), seed=st.integers(0, 1000))
def test_every_prompt_is_dealt_once_before_any_comes_again(count: int, seed: int) -> None:
    order = PromptOrder(count, seed=seed, first=0)
    assert sorted(order.next() for _ in range(count)) == list(range(count))


def test_sglangs_own_endpoint_gets_text_or_ids_and_the_same_sampling_in_its_own_words() -> None:
    sampling = sampling_of(SamplingSpec(max_tokens=64, min_tokens=8, seed=3), temperature=0.7)
    target = Target("http://e", "http://e", "m", sglang_dialect("0.5.23"), api="generate")
    asked = json.loads(streaming_body(target, "some text", sampling=sampling, continuous=True))
    assert asked["text"] == "some text"
    assert asked["stream"] is True
    params = asked["sampling_params"]
    assert (params["max_new_tokens"], params["min_new_tokens"], params["temperature"]) == (64, 8, 0.7)
    assert not {"max_tokens", "min_tokens", "seed"} & set(params)
    assert json.loads(streaming_body(target, [5, 6], sampling=sampling, continuous=True))["input_ids"] == [5, 6]
