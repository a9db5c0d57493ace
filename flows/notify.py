"""Sends one message through a notification block that is kept in Prefect: `python -m flows.notify`, the message on stdin."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, cast

import httpx
from prefect.blocks.abstract import NotificationBlock
from prefect.blocks.core import Block
from pydantic import ValidationError

SHORTEST_SECRET = 4


def main() -> None:
    """Load the block and send; a failure is one line on stderr and exit code 1."""
    given = json.load(sys.stdin)
    block: Any = None
    try:
        block = cast(Any, Block.load(given["block"]))
        if not isinstance(block, NotificationBlock):
            sys.exit(f"block {given['block']} sends no notifications")
        cast(Any, block).notify(given["body"], subject=given["title"])
    except Exception as error:  # noqa: BLE001  whatever a block raises is the reason that is told
        sys.exit(reason(error, block))


def reason(error: Exception, block: Any) -> str:
    """Return what went wrong in one line, without anything that the block holds: where it sends to is a secret.

    Args:
        block: None for one that could not be loaded.
    """
    said = " ".join(str(error).split())
    if isinstance(error, ValidationError):  # in its own words it shows the very values
        found = error.errors(include_input=False, include_url=False)
        said = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)
    if block is None and isinstance(error, httpx.TransportError):
        said = f"Prefect's server at {os.environ.get('PREFECT_API_URL')} does not answer ({said})"
    for secret in sorted(_strings(block), key=len, reverse=True):
        said = said.replace(secret, "***")
    return f"{type(error).__name__}: {said}"


def _strings(block: Any) -> set[str]:
    """Return all that a block holds in words, its secrets uncovered."""
    fields = {} if block is None else block.model_dump()
    plain = (value.get_secret_value() if hasattr(value, "get_secret_value") else value for value in fields.values())
    return {value for value in map(str, plain) if len(value) >= SHORTEST_SECRET}


if __name__ == "__main__":
    main()
