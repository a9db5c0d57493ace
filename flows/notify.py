"""Sends one message through a notification block that is kept in Prefect: `python -m flows.notify`, the message on stdin."""

from __future__ import annotations

import json
import sys
from typing import Any, cast

from prefect.blocks.abstract import NotificationBlock
from prefect.blocks.core import Block


def main() -> None:
    """Load the block and send; a failure is one line on stderr and exit code 1."""
    given = json.load(sys.stdin)
    try:
        block = cast(Any, Block.load(given["block"]))
        if not isinstance(block, NotificationBlock):
            sys.exit(f"block {given['block']} sends no notifications")
        cast(Any, block).notify(given["body"], subject=given["title"])
    except Exception as error:  # noqa: BLE001  whatever a block raises is the reason that is told
        sys.exit(f"{type(error).__name__}: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main()
