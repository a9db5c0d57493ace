"""Properties are drawn the same way in every run, so that a red run means a change; NIGHTSWEEP_TEST_RANDOM=1 draws anew."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("random" if os.environ.get("NIGHTSWEEP_TEST_RANDOM") == "1" else "steady")
