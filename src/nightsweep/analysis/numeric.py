"""numpy with one thread for its linear algebra: `from nightsweep.analysis.numeric import np`, inside the function that needs it.

OpenBLAS starts a thread for each core when it is loaded, and they spin: 0.06 s more on two cores and 1.4 s of CPU on sixteen,
of a box that may be measuring. Our matrices are small. The variable is put back: an engine started from here must not inherit it.
"""

from __future__ import annotations

import os
import sys

_THREADS = "OPENBLAS_NUM_THREADS"


def _alone() -> None:
    """Load numpy with one thread, unless somebody said how many, or it is loaded already."""
    if "numpy" in sys.modules or _THREADS in os.environ:
        return
    os.environ[_THREADS] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[_THREADS]


_alone()

import numpy as np  # noqa: E402

__all__ = ["np"]
