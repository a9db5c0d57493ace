"""A small reversible tokenizer: known words, letter runs of up to three, white space, digits, bytes.

It stands in for a model's own: what matters is that `/tokenize`, prompt counts and `usage` agree to the token, that any
text comes back unchanged, and that a word costs about as many tokens as with a real one. Identifiers are computed, not
listed, but for the known words.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_INDEX = {letter: i for i, letter in enumerate(_LETTERS)}
_SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
_PIECES = re.compile(r"<\|[a-z_]+\|>| ?[A-Za-z]+|\n {0,40}| {1,40}|[0-9]|[^A-Za-z0-9]", re.DOTALL)
_WORDS: list[str] = re.findall(
    r"\w+",
    "a add all an and any api append args array as async at await be bool break build by cache call check class close "
    "code config connection content count create data database date debug decode def default define delete dict each "
    "edge elif else empty encode end error example except expected fail false field file filter find first float for "
    "format from function get given handle has hash header if implement import in index input insert int integer into "
    "invalid is item items iterate it join json key keys last len length line lines list load log loop lower main make "
    "map match max merge message method min missing model module name names new next no none not null number object of "
    "on one open optional or order other output parameter parse parser pass path print process property python query "
    "queue raise range raw read record remove replace request response result results return returns row rows run self "
    "send set should single size sort sorted source split start state status step stop store str string strip sum table "
    "take test tests text that the their them then this time to token tokens total true try tuple two type types unit "
    "update url use used user using valid validate value values version wait when where which while with without word "
    "words work write yield you your zero False None True Write Return Raises Args Implement Explain Given user system "
    "assistant The This It Use Add",
)

_BYTES = 0
_SPECIALS = 256
_NEWLINES = _SPECIALS + len(_SPECIAL)
_SPACES = _NEWLINES + 41
_KNOWN = _SPACES + 41
_KNOWN_TEXT = tuple(dict.fromkeys([prefix + word for word in _WORDS for prefix in ("", " ")]))
_KNOWN_ID = {text: _KNOWN + i for i, text in enumerate(_KNOWN_TEXT)}
_RUNS = _KNOWN + len(_KNOWN_TEXT)
_RUN_COUNT = 52 + 52**2 + 52**3
VOCABULARY = _RUNS + 2 * _RUN_COUNT
"""Number of token ids."""
END_OF_TURN = _SPECIALS + 1


def encode(text: str) -> list[int]:
    """Return the token ids of a text; `decode` gives the text back."""
    ids: list[int] = []
    for piece in _PIECES.findall(text):
        known = _KNOWN_ID.get(piece)
        if known is not None:
            ids.append(known)
        else:
            ids.extend(_unknown(piece))
    return ids


@lru_cache(maxsize=4096)
def _unknown(piece: str) -> tuple[int, ...]:
    if piece in _SPECIAL:
        return (_SPECIALS + _SPECIAL.index(piece),)
    if piece[0] == "\n":
        return (_NEWLINES + len(piece) - 1,)
    if piece[-1] == " ":
        return (_SPACES + len(piece),)
    if piece[-1] in _INDEX and piece[0] != "<":
        return tuple(_letter_runs(piece))
    return tuple(_BYTES + byte for byte in piece.encode("utf-8", "surrogatepass"))


def _letter_runs(piece: str) -> Iterable[int]:
    spaced = piece[0] == " "
    word = piece[1:] if spaced else piece
    for start in range(0, len(word), 3):
        yield _run_id(word[start : start + 3], spaced=spaced and start == 0)


def _run_id(letters: str, *, spaced: bool) -> int:
    number = 0
    for letter in letters:
        number = number * 52 + _INDEX[letter]
    shorter: int = sum(52**n for n in range(1, len(letters)))
    return _RUNS + (_RUN_COUNT if spaced else 0) + shorter + number


def decode(ids: Sequence[int]) -> str:
    """Return the text of token ids. Bytes that are no UTF-8 come out as replacement characters."""
    return b"".join(_bytes_of(i) for i in ids).decode("utf-8", "replace")


def _bytes_of(token: int) -> bytes:
    if token < _SPECIALS:
        return bytes((token,))
    if token < _NEWLINES:
        return _SPECIAL[token - _SPECIALS].encode()
    if token < _SPACES:
        return b"\n" + b" " * (token - _NEWLINES)
    if token < _KNOWN:
        return b" " * (token - _SPACES)
    if token < _RUNS:
        return _KNOWN_TEXT[token - _KNOWN].encode()
    return _run_text(token).encode()


def _run_text(token: int) -> str:
    number = token - _RUNS
    spaced = number >= _RUN_COUNT
    number -= _RUN_COUNT if spaced else 0
    size = 1
    while number >= 52**size:
        number -= 52**size
        size += 1
    letters = []
    for _ in range(size):
        number, letter = divmod(number, 52)
        letters.append(_LETTERS[letter])
    return (" " if spaced else "") + "".join(reversed(letters))


def render_chat(messages: Iterable[tuple[str, str]], *, generation_prompt: bool = True) -> str:
    """Return the text that a chat becomes; each message is (role, content)."""
    turns = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in messages)
    return turns + ("<|im_start|>assistant\n" if generation_prompt else "")


def prompt_key(ids: Sequence[int]) -> bytes:
    """Return 16 bytes that stand for a prompt: all that is content-dependent hangs on them."""
    return hashlib.blake2b(array("I", ids).tobytes(), digest_size=16).digest()
