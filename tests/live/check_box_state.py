"""What the box sampler sees on a machine with an NVIDIA accelerator: run by hand, needs PyTorch, nvidia-ml-py and psutil.

    PYTHONPATH=src python tests/live/check_box_state.py

One process plays the engine and multiplies matrices; after some seconds another one, somebody else's, does the same. The first
half must be clean, the second disturbed, and energy per token must be what the accelerator's own energy counter says.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from nightsweep.host import accelerator
from nightsweep.host.boxstate import BoxStateSampler
from nightsweep.measurement.boxstate import BoxSample, BoxState, box_state
from nightsweep.ports import EngineHandle
from nightsweep.units import MonotonicSeconds, Seconds, Tokens

LOAD = """
import time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
torch.cuda.synchronize(); print("up", flush=True)
end = time.monotonic() + float({seconds})
while time.monotonic() < end:
    for _ in range(20): b = a @ a
    torch.cuda.synchronize()
"""


class Clock:
    def monotonic(self) -> MonotonicSeconds:
        return MonotonicSeconds(time.monotonic())

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: Seconds) -> None:
        time.sleep(seconds)


def load(seconds: float, *, alone: bool = False) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", LOAD.format(seconds=seconds)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=alone,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def state(samples: tuple[BoxSample, ...], begin: float, end: float) -> BoxState:
    found = box_state(
        samples,
        opened=MonotonicSeconds(begin),
        closed=MonotonicSeconds(end),
        cores=BoxStateSampler(Clock()).cores,
        tokens=Tokens(1000),
        simulated=False,
    )
    assert found is not None
    return found


def main() -> None:
    engine = load(40.0)
    handle = EngineHandle("process", f"{engine.pid}:0", "check", 1, "", facts={"pid": engine.pid})
    sampler = BoxStateSampler(Clock())
    with sampler.watch(handle, every=Seconds(1.0)) as watch:
        time.sleep(2.0)
        begin = time.monotonic()
        time.sleep(8.0)
        between = time.monotonic()
        other = load(8.0)
        busy = time.monotonic() + 1.0
        time.sleep(7.0)
        end = time.monotonic()
    samples = watch.samples()
    clean, disturbed = state(samples, begin, between), state(samples, busy, end)
    print(json.dumps({"last sample": asdict(samples[-1])}, indent=1, default=str))
    for name, found in (("clean", clean), ("disturbed", disturbed)):
        shown: dict[str, Any] = asdict(found)
        print(name, json.dumps(shown, default=str))
    inside = [sample for sample in samples if begin <= sample.at <= between]
    first, last = inside[0], inside[-1]
    counted = [later.energy - one.energy for one, later in zip(first.devices, last.devices, strict=True)
               if one.energy is not None and later.energy is not None]  # fmt: skip
    span = last.at - first.at
    print("joules by counter", counted, "over", span, "s; by power:", [
        None if device.energy is None else device.energy / clean.seconds * span for device in clean.devices])  # fmt: skip
    print("users", accelerator.users())
    for process in (engine, other):
        process.kill()
        process.wait()
    print("flags", dict(clean.flags), dict(disturbed.flags))


if __name__ == "__main__":
    main()
