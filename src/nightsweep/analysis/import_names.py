"""What a server combination of `vllm bench sweep` is called: of named combinations, its results keep the client's name alone.

A folder is called `SERVE--NAME-BENCH--NAME` (and `-WL--...` of a workload sweep), with `/` as `_` and `..` as `__`; a combination
without parameters has no part in it, one without a name is called by its parameters.

Source:
    vllm/benchmarks/sweep/serve.py `_get_comb_base_path`, `_update_run_data`; param_sweep.py `ParameterSweepItem.name`;
    utils.py `sanitize_filename` (0.32.0).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

NAME = "_benchmark_name"
_SERVE = re.compile(r"SERVE--(?P<name>.+)")
_WORKLOAD = re.compile(r"-WL--[a-z_]+=\d+$")

Record = Mapping[str, Any]


def server_named(one: Record, *, folder: str) -> Record:
    """Return a result with its server's name for a client's, by the folder that it lies in.

    Args:
        folder: The folder's own name. One that tells nothing leaves the result as it is.
    """
    name = one.get(NAME)
    if not name:
        return one
    called, _, last = _WORKLOAD.sub("", folder).rpartition("BENCH--")
    if last != _in_a_path(str(name)) or (called and not called.endswith("-")):
        return one
    server = _SERVE.fullmatch(called[:-1]) if called else None
    # One without parameters is no named server: it is called as any other result is.
    return {**one, NAME: None if server is None else server["name"]}


def client_named(records: Sequence[Record], servers: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the names in a sweep's summary are the client's: they differ for one server, or are of several.

    Args:
        servers: What was set on the server of each record.
    """
    names, keys = defaultdict(set), defaultdict(set)
    for one, server in zip(records, servers, strict=True):
        key = json.dumps(server, sort_keys=True, default=str)
        if one.get(NAME):
            names[key].add(str(one[NAME]))  # what is no text is refused with its row
            keys[str(one[NAME])].add(key)
    return any(len(found) > 1 for found in (*names.values(), *keys.values()))


def without_name(one: Record) -> Record:
    """Return a result without a name that is not its server's."""
    return {**one, NAME: None}


def _in_a_path(name: str) -> str:
    return name.replace("/", "_").replace("..", "__")
