"""Engine versions, compared by release number alone."""

from __future__ import annotations

import re

Version = tuple[int, int, int]

_RELEASE = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?![\d])")
_UNTAGGED = re.compile(r"v?0\.1\.dev\d")


def parse_version(text: str | None) -> Version | None:
    """Return (major, minor, patch) of an engine's version text, or None when it tells no release.

    Pre-release, post-release and local parts are left out: "0.26.1rc0+fork" is (0, 26, 1), "0.5.10.post2" (0, 5, 10).
    "0.1.dev19043+g..." is what a build without git tags calls itself and says nothing about its release.
    """
    if not text or _UNTAGGED.match(text.strip()):
        return None
    match = _RELEASE.match(text.strip())
    if match is None:
        return None
    major, minor, patch = match.groups()
    return (int(major), int(minor), int(patch or 0))


def image_version(image: str | None) -> Version | None:
    """Return the release that an image's tag names ("vllm/vllm-openai:v0.28.0-cu130"), or None.

    A tag must start with the release: "cu129-nightly-0.1" and "latest" tell nothing.
    """
    if not image:
        return None
    name = image.partition("@")[0]
    _, colon, tag = name.rpartition("/")[2].partition(":")
    return parse_version(tag) if colon else None


def release(version: Version) -> str:
    """Return a version as people write it."""
    return ".".join(str(part) for part in version)
