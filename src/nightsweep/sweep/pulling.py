"""Images that are not here: pulled before production goes down where that can be, and never at the cost of its return."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from nightsweep.errors import ImageMissing, ImageNotInTime
from nightsweep.plan.model import BootTask
from nightsweep.sweep.night import Night
from nightsweep.sweep.tools import Tools

Say = Callable[[str, str], None]
"""Tells listeners a phase and what happens in it."""


def fetch_image(tools: Tools, task: BootTask, *, check: Callable[[], None], sweep_id: int) -> None:
    """Have a boot's image here; one that had to be pulled is told with the time that this took.

    Args:
        check: Asked during a pull; what it raises gives the pull up.

    Raises:
        ImageMissing: It cannot be had.
    """
    spec = task.config.engine
    if spec.image is None:
        return
    took = tools.host(spec.host).fetch(spec.image, check=check)
    if took is not None:
        said = f"image {spec.image} was not here: it was pulled in {took:.0f} s"
        tools.store.event("image_pulled", said, sweep_id=sweep_id)


def pull_check(night: Night, task: BootTask, *, check: Callable[[], None], say: Say) -> Callable[[], None]:
    """Return what is asked during a pull: whether the sweep goes on, and whether the boot would still be of use.

    Nobody waits for a pull that ends too late for the boot's cold start and a first window: production comes first, and
    what is left of the night is for configs whose images are here. It raises ImageNotInTime, and what `check` does.
    """
    begun, said = night.tools.clock.monotonic(), False

    def go_on() -> None:
        nonlocal said
        if not said:  # an image that is here is not asked about: this is a pull
            said = True
            say("pull", f"pulling image {task.config.engine.image}, which is not here")
        check()
        late = night.too_late_for(task)
        if late is not None:
            waited = night.tools.clock.monotonic() - begun
            raise ImageNotInTime(image=task.config.engine.image, waited=waited, reason=late)

    return go_on


def have_images(
    night: Night, tasks: Sequence[BootTask], *, check: Callable[[], None], say: Say, sweep_id: int
) -> tuple[ImageNotInTime, ...]:
    """Have the images of these boots here, while production still serves; return which pulls were given up.

    One that cannot be had is not told here: its boot asks for it again, and fails with the reason.
    """
    given_up: list[ImageNotInTime] = []
    first: dict[str | None, BootTask] = {}
    for task in tasks:
        first.setdefault(task.config.engine.image, task)
    for task in first.values():
        asked = pull_check(night, task, check=check, say=say)
        try:
            with contextlib.suppress(ImageMissing):
                fetch_image(night.tools, task, check=asked, sweep_id=sweep_id)
        except ImageNotInTime as error:
            given_up.append(error)
            tell_given_up(night.tools, error, sweep_id=sweep_id)
    return tuple(given_up)


def tell_given_up(tools: Tools, error: ImageNotInTime, *, sweep_id: int) -> None:
    """Keep for the morning that a pull was given up; its configs are left for the next night."""
    tools.store.event("image_not_in_time", str(error), level="warning", sweep_id=sweep_id)
