"""What is sent: request bodies with every sampling parameter explicit, because engines' defaults differ."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from nightsweep import __version__
from nightsweep.plan.model import SamplingSpec
from nightsweep.ports import Secret, Target

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions", "generate": "/generate"}

NATIVE_NAMES = {"max_tokens": "max_new_tokens", "min_tokens": "min_new_tokens"}
"""Sampling parameters that SGLang's `/generate` calls otherwise."""


def path_of(api: str) -> str:
    """Return the path of an API, "chat", "completions" or "generate"."""
    return PATHS[api]


def headers_of(target: Target) -> dict[str, str]:
    """Return headers of a request to the model; the stream must not be compressed, or its chunks would be buffered."""
    headers = {
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": f"nightsweep/{__version__}",
    }
    if target.api_key:
        headers |= authorization(target.api_key)
    return headers


def authorization(key: Secret) -> dict[str, str]:
    """Return the header that carries an API key."""
    return {"authorization": f"Bearer {key!s}"}


def sampling_of(sampling: SamplingSpec, *, temperature: float, index: int = 0) -> dict[str, Any]:
    """Return every sampling parameter as the engines name it.

    What is not sent is taken from the model's `generation_config.json` (temperature, top_p, top_k, min_p and
    repetition_penalty), so that none of these is ever left out. `min_tokens` and `ignore_eos` stand in no such file, mean the
    same everywhere when they are absent, and are sent when they are asked for: a strict proxy refuses what OpenAI's API does
    not know. A seed is the plan's plus the request's index.

    Source:
        vLLM `SamplingParams._validate_spec_decode`: under speculation a `min_p` above 1e-5 is refused, 0 is not.
    """
    found: dict[str, Any] = {
        "temperature": temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "max_tokens": sampling.max_tokens,
    }
    if sampling.ignore_eos:
        found["ignore_eos"] = True
    if sampling.min_tokens is not None:
        found["min_tokens"] = sampling.min_tokens
    if sampling.seed is not None:
        found["seed"] = sampling.seed + index
    return found


def stream_options(*, continuous: bool) -> dict[str, bool]:
    """Return options that ask for token counts: at the end, and with every chunk where the server can."""
    return {"include_usage": True, **({"continuous_usage_stats": True} if continuous else {})}


def streaming_body(
    target: Target, prompt: Any, *, sampling: Mapping[str, Any], continuous: bool, api: str | None = None
) -> bytes:
    """Return the JSON body of one streamed request.

    Args:
        prompt: Text, a list of chat messages, or a list of token ids.
        sampling: From `sampling_of`.
        api: "chat", "completions" or "generate"; None takes the target's.
    """
    if (api or target.api) == "generate":
        return _native_body(prompt, sampling)
    body: dict[str, Any] = {"model": target.model, "stream": True, **sampling}
    body["stream_options"] = stream_options(continuous=continuous)
    body |= prompt_fields(prompt, api=api or target.api)
    return json.dumps(body, separators=(",", ":")).encode()


def _native_body(prompt: Any, sampling: Mapping[str, Any]) -> bytes:
    """Return the body of SGLang's native endpoint; a seed is not among what all its versions take there."""
    renamed = {NATIVE_NAMES.get(name, name): value for name, value in sampling.items() if name != "seed"}
    given = prompt_fields(prompt, api="completions")["prompt"]
    body = {
        ("text" if isinstance(given, str) else "input_ids"): given,
        "sampling_params": renamed,
        "return_logprob": False,
        "stream": True,
    }
    return json.dumps(body, separators=(",", ":")).encode()


def prompt_fields(prompt: Any, *, api: str) -> dict[str, Any]:
    """Return the prompt as the API takes it.

    The chat API takes no token ids: they are rendered as words, one per id, by `words_of`. The completions API takes no
    messages: their contents are joined by blank lines.
    """
    if api == "chat":
        return {"messages": _messages(prompt)}
    if isinstance(prompt, str) or is_token_ids(prompt):
        return {"prompt": list(prompt) if not isinstance(prompt, str) else prompt}
    return {"prompt": "\n\n".join(str(message.get("content") or "") for message in prompt)}


def _messages(prompt: Any) -> list[Any]:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    if is_token_ids(prompt):
        return [{"role": "user", "content": words_of(prompt)}]
    return list(prompt)


def is_token_ids(prompt: Any) -> bool:
    """Return whether a prompt is a list of token ids."""
    return not isinstance(prompt, str) and len(prompt) > 0 and isinstance(prompt[0], int)


_ONSETS = ("b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ou", "ea")


def words_of(ids: Sequence[int]) -> str:
    """Return one made-up word per id, always the same for the same id: random ids as text."""
    return " ".join(_word(number) for number in ids)


def _word(number: int) -> str:
    syllables = []
    number += len(_ONSETS) * len(_VOWELS)
    while number:
        number, rest = divmod(number, len(_ONSETS) * len(_VOWELS))
        syllables.append(_ONSETS[rest % len(_ONSETS)] + _VOWELS[rest // len(_ONSETS)])
    return "".join(syllables)


class PromptOrder:
    """Deals prompts in a seeded order, the same for every config; when all are dealt, they are shuffled anew."""

    def __init__(self, count: int, *, seed: int, first: int) -> None:
        self._count = count
        self._random = random.Random(seed)
        self._dealt: list[int] = []
        for _ in range(first // count):
            self._shuffled()
        self._dealt = self._shuffled()[first % count :]

    def next(self) -> int:
        """Return the index of the next prompt."""
        if not self._dealt:
            self._dealt = self._shuffled()
        return self._dealt.pop(0)

    def _shuffled(self) -> list[int]:
        order = list(range(self._count))
        self._random.shuffle(order)
        return order
