"""Units in the type. Base units inside; milliseconds and percent appear in reports only."""

from typing import NewType

Seconds = NewType("Seconds", float)
"""A length of time, in seconds."""

MonotonicSeconds = NewType("MonotonicSeconds", float)
"""A point on this process's monotonic clock, in seconds. Only differences mean anything."""

Tokens = NewType("Tokens", int)
"""A count of tokens."""

TokensPerSecond = NewType("TokensPerSecond", float)
"""A rate in tokens per second; a name says whether it is of all streams together or per stream."""

GiB = NewType("GiB", float)
"""Memory in units of 2**30 bytes."""

Bytes = NewType("Bytes", int)
"""Memory or size in bytes."""

Ratio = NewType("Ratio", float)
"""A pure number; 1.0 is the whole."""

Hertz = NewType("Hertz", float)
"""A clock rate, in cycles per second."""

Watts = NewType("Watts", float)
"""Power."""

Joules = NewType("Joules", float)
"""Energy."""

Celsius = NewType("Celsius", float)
"""Temperature of a device. A sampling temperature is a pure number and has no unit."""

GIB = 1024**3
