"""Where engines run: Docker or plain processes, and the facts of the box.

`DockerHost` and `ProcessHost` both keep the promises of `ports.Host`; one suite (`tests/contract/test_host.py`) holds them to it.
What a host must never get wrong: an engine is known by our label or record and never by name, its end is proven before it is
reported, a daemon that is away for a moment is no death, and containers of other people are stopped and started but never
removed or changed.
"""
