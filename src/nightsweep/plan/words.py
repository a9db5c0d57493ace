"""Words and marks of a plan that tables and lists need without the plan's values, so that a list starts fast."""

from __future__ import annotations

from decimal import Decimal

KINDS = ("vllm", "sglang")

NEVER, SAME, AFTER_MEMORY, OUTSIDE = "never", "same", "after_memory", "outside"
"""Advice of a failed boot: no retry mends it; another one may succeed; one may when memory is free; another hand stopped it,
which says nothing of its config."""

BUNDLED_PROMPTS = ("code", "prose", "tools", "random-ids")

DECODE = "decode"
SINGLE_BATCH = "single_batch"
WHOLE_RUN = "whole_run"
"""Kinds of cells. A whole run is another client's: all output tokens by all of its time, with ramp, prefill and tail."""

UNKNOWN_TEMPERATURE = Decimal(-1)
"""Of an imported cell whose temperature nobody told: a place that no measured cell has, shown as not known."""

MEASURED = "measured"
IMPORTED = "imported:"
"""How the condition `source` of an imported row begins; a measured window has no such condition, and is called MEASURED."""

IMPORT_WROTE = "# Written by `nightsweep import`"
"""How a sweep's file begins that was made of imported rows: its configs are theirs, its probe was never run."""

MEAN_OF = "a mean of "
"""How the note of an imported row begins that stands for several runs, of which each is not known."""

NO_DATE = "date not known: listed at the time of its import"
"""The note of an imported row whose file does not say when it was measured."""

OF_UNKNOWN_BOOTS = "how many boots these runs are of is not known"
"""The note of a boot that stands for all rows of a config whose file names no boots."""

NO_COUNT = "run count not stated"
"""The note of an imported row whose file does not say how many runs it stands for."""

CONTROL_ROUND = 1000
"""Boot round, and repeat index, of a control's first extra boot: beyond all that a plan's own rounds and repeats can reach."""

DECODE_RATE, ACCEPTANCE_LENGTH, STEP_TIME, RATIO = "decode_rate", "acceptance_length", "step_time", "ratio"
QUANTITIES = (DECODE_RATE, ACCEPTANCE_LENGTH, STEP_TIME, RATIO)
"""What may be expected of a cell."""

FROM_FILE, FROM_BANDWIDTH = "file", "bandwidth"
SOURCES = (FROM_FILE, FROM_BANDWIDTH)
"""Where an expectation is from."""
