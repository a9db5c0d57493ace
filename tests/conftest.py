"""What every run of the tests begins with, wherever it is started.

Properties are drawn the same way in every run, so that a red run means a change; NIGHTSWEEP_TEST_RANDOM=1 draws anew.
"""

from __future__ import annotations

import contextlib
import os
import signal

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("random" if os.environ.get("NIGHTSWEEP_TEST_RANDOM") == "1" else "steady")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts a job in the background has it ignore SIGINT, and children inherit that: the product respects it, as
    # it should, and the tests that press Ctrl-C would wait in vain.
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.default_int_handler)
