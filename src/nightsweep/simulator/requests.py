"""What a client asks for: request bodies checked as vLLM checks them, and turned into plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightsweep.simulator import tokenizer


class Refused(Exception):
    """A request that vLLM would refuse.

    Attributes:
        status: HTTP status.
        kind: vLLM's word for it, e.g. "BadRequestError".
    """

    def __init__(
        self, message: str, *, status: int = 400, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": status}}


@dataclass(frozen=True)
class Ask:
    """One generation that is asked for.

    Attributes:
        max_tokens: None lets the context length decide.
        stop: Strings that end the answer.
        include_usage, continuous_usage: `stream_options`.
    """

    ids: tuple[int, ...]
    model: str
    chat: bool
    stream: bool
    max_tokens: int
    min_tokens: int
    temperature: float
    seed: int | None
    ignore_eos: bool
    stop: tuple[str, ...]
    include_usage: bool
    continuous_usage: bool


@dataclass(frozen=True)
class Limits:
    """What the engine serves."""

    names: tuple[str, ...]
    max_model_len: int
    speculating: bool


def known_model(body: Mapping[str, Any], limits: Limits) -> str:
    """Return the model that is asked for (the first one when none is named).

    Raises:
        Refused: 404 for a model that is not served.
    """
    model = body.get("model") or limits.names[0]
    if model not in limits.names:
        raise Refused(
            f"The model `{model}` does not exist. Valid aliases: {', '.join(limits.names)}.",
            status=404,
            kind="NotFoundError",
            param="model",
        )
    return str(model)


def read_ask(body: Any, *, chat: bool, limits: Limits) -> Ask:
    """Return the generation that a body asks for.

    Raises:
        Refused: As vLLM would refuse it.
    """
    if not isinstance(body, Mapping):
        raise Refused(
            "[{'type': 'model_attributes_type', 'loc': ('body',), 'msg': 'Input should be a valid dictionary'}]"
        )
    model = known_model(body, limits)
    ids = chat_ids(body) if chat else prompt_ids(body.get("prompt"))
    max_tokens = _max_tokens(body, len(ids), limits, chat=chat)
    options = body.get("stream_options") or {}
    stream = bool(body.get("stream"))
    if options and not stream:
        raise Refused("Stream options can only be defined when `stream=True`.", param="stream_options")
    _check_sampling(body, limits)
    min_tokens = int(_number(body, "min_tokens", 0))
    if min_tokens > max_tokens:
        raise Refused(f"min_tokens must be less than or equal to max_tokens={max_tokens}, got {min_tokens}.")
    seed = body.get("seed")
    return Ask(
        ids=tuple(ids),
        model=model,
        chat=chat,
        stream=stream,
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        temperature=float(_number(body, "temperature", 1.0)),
        seed=None if seed is None else int(seed) & (2**62 - 1),
        ignore_eos=bool(body.get("ignore_eos")),
        stop=_stop(body.get("stop")),
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("continuous_usage_stats")) and bool(options.get("include_usage")),
    )


def chat_ids(body: Mapping[str, Any]) -> list[int]:
    """Return the token ids of a chat's messages, rendered as the model sees them."""
    messages = body.get("messages")
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise Refused("messages must be a list with at least one message.", param="messages")
    turns = [(str(m.get("role", "user")), _content(m.get("content"))) for m in messages if isinstance(m, Mapping)]
    if len(turns) != len(messages):
        raise Refused("every message must be an object with role and content.", param="messages")
    return tokenizer.encode(
        tokenizer.render_chat(turns, generation_prompt=bool(body.get("add_generation_prompt", True)))
    )


def _content(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    raise Refused("message content must be a string or a list of parts.", param="messages")


def prompt_ids(prompt: Any) -> list[int]:
    """Return the token ids of a completions prompt: a string, token ids, or a list of one of these."""
    if isinstance(prompt, str) and prompt:
        return tokenizer.encode(prompt)
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        return prompt_ids(prompt[0])
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        worst = max(prompt)
        if worst >= tokenizer.VOCABULARY or min(prompt) < 0:
            raise Refused(f"Token id {worst} is out of vocabulary")
        return prompt
    raise Refused(
        "prompt must be a string or a list of token ids; the simulator takes one prompt a request.", param="prompt"
    )


def _number(body: Mapping[str, Any], key: str, default: float) -> float:
    value = body.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refused(f"{key} must be a number, got {value!r}.", param=key)
    return value


def _max_tokens(body: Mapping[str, Any], prompt: int, limits: Limits, *, chat: bool) -> int:
    room = limits.max_model_len - prompt
    if room <= 0:
        raise Refused(
            f"This model's maximum context length is {limits.max_model_len} tokens. However, your prompt contains at least "
            f"{prompt} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of "
            f"the input prompt. (parameter=input_tokens, value={prompt})"
        )
    asked = body.get("max_completion_tokens") if chat else None
    asked = body.get("max_tokens") if asked is None else asked
    if asked is None:
        return room if chat else min(16, room)
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < 1:
        raise Refused(f"max_tokens must be at least 1, got {asked}.", param="max_tokens")
    if asked > room:
        raise Refused(
            f"'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum context length is "
            f"{limits.max_model_len} tokens and your request has {prompt} input tokens ({asked} > "
            f"{limits.max_model_len} - {prompt}).",
            param="max_tokens",
        )
    return asked


def _check_sampling(body: Mapping[str, Any], limits: Limits) -> None:
    temperature = _number(body, "temperature", 1.0)
    if temperature < 0:
        raise Refused(f"temperature must be non-negative, got {float(temperature)}.", param="temperature")
    top_p = _number(body, "top_p", 1.0)
    if not 0 < top_p <= 1:
        raise Refused(f"top_p must be in (0, 1], got {float(top_p)}.", param="top_p")
    n = _number(body, "n", 1)
    if n != 1 and temperature == 0:
        raise Refused(f"n must be 1 when using greedy sampling, got {n:g}.")
    if n != 1:
        raise Refused("the simulator answers one sequence a request: n must be 1.", param="n")
    if limits.speculating and (body.get("min_p") or body.get("logit_bias")):
        raise Refused("The min_p and logit_bias sampling parameters are not yet supported with speculative decoding.")


def _stop(stop: Any) -> tuple[str, ...]:
    if stop is None:
        return ()
    if isinstance(stop, str):
        return (stop,)
    if isinstance(stop, list) and all(isinstance(item, str) for item in stop):
        return tuple(stop)
    raise Refused("stop must be a string or a list of strings.", param="stop")
