"""The environment an engine process gets: little of ours, and what the plan says. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from nightsweep.host.process_tree import MARK
from nightsweep.host.redact import looks_secret

INHERITED = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV",
        "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
        "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
        "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_ENDPOINT", "TRANSFORMERS_OFFLINE",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
        "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    }
)  # fmt: skip
"""What an engine needs of the machine. Variables that configure an engine (VLLM_*, SGLANG_*, OMP_*) are not here: they
change what is measured, so they belong in the sweep file, where they enter the fingerprint."""

INHERITED_PREFIXES = ("LC_", "XDG_")
ALWAYS = {"PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}


def engine_environment(ours: Mapping[str, str], given: Mapping[str, str], *, boot_key: str) -> dict[str, str]:
    """Return the environment of an engine process.

    Args:
        ours: This process's environment.
        given: What the plan gives; wins over everything but the mark.
    """
    inherited = {name: value for name, value in ours.items() if is_inherited(name)}
    return {**inherited, **ALWAYS, **{name: str(value) for name, value in given.items()}, MARK: boot_key}


def is_inherited(name: str) -> bool:
    """Return whether a variable of ours is passed on."""
    return name in INHERITED or (name.startswith(INHERITED_PREFIXES) and not looks_secret(name))
