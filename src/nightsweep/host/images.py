"""Images, known by what is in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import docker
import docker.errors

from nightsweep.errors import DockerUnavailable, ImageMissing
from nightsweep.host.docker_client import explanation

CONTENT = ("Cmd", "Entrypoint", "Env", "ExposedPorts", "Labels", "Shell", "StopSignal", "User", "Volumes", "WorkingDir")
"""Parts of an image's config that decide how it runs. Engine versions differ in which empty fields they list."""


def known(client: docker.DockerClient, image: str) -> Mapping[str, Any] | None:
    """Return what Docker knows of an image; None when it is not here.

    Raises:
        ImageMissing: There can be none of that name.
    """
    try:
        return _known(client, image)
    except docker.errors.ImageNotFound:
        return None
    except docker.errors.APIError as fault:  # e.g. a reference that cannot be parsed
        raise ImageMissing(image=image, reason=explanation(fault)) from fault


def digest_here(client: docker.DockerClient, image: str) -> str | None:
    """Return the identity of an image that is here; None for one that is not, or that cannot be."""
    try:
        return identity(_known(client, image))
    except docker.errors.ImageNotFound:
        return None
    except docker.errors.APIError as fault:
        if fault.status_code is not None and 400 <= fault.status_code < 500:  # e.g. a reference that cannot be parsed
            return None
        raise DockerUnavailable(reason=explanation(fault)) from fault


def _known(client: docker.DockerClient, image: str) -> Mapping[str, Any]:
    attrs: Mapping[str, Any] = client.images.get(image).attrs
    return attrs


def identity(attrs: Mapping[str, Any]) -> str:
    """Return "sha256:..." of an image's content.

    The registry's digest where there is one. Else a hash over layers and config: an image's `Id` is not the same in
    Docker's two image stores.

    Source:
        Docker Engine API, GET /images/{name}/json: RepoDigests, RootFS.Layers, Config.
    """
    digests = sorted(str(entry).rpartition("@")[2] for entry in attrs.get("RepoDigests") or ())
    if digests:
        return digests[0]
    config = attrs.get("Config") or {}
    content = {
        "layers": (attrs.get("RootFS") or {}).get("Layers") or [],
        "config": {key: config[key] for key in CONTENT if config.get(key)},
        "platform": [attrs.get("Os"), attrs.get("Architecture"), attrs.get("Variant") or None],
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def references(attrs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names an image goes by."""
    return tuple(attrs.get("RepoTags") or ()) + tuple(attrs.get("RepoDigests") or ())
