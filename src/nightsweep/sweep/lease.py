"""Holding on to the sweep while it runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from nightsweep.errors import LeaseLost, StoreError
from nightsweep.ports import Lease, Store
from nightsweep.units import Seconds


class Held:
    """A lease that a thread renews; `check` raises once it was lost.

    Args:
        also: What may end the sweep besides; called at each check.
    """

    def __init__(self, lease: Lease, *, also: Callable[[], None] = lambda: None) -> None:
        self.lease = lease
        self._also = also
        self._lost: LeaseLost | None = None

    def lost(self, error: LeaseLost) -> None:
        """Remember that somebody else holds the sweep now."""
        self._lost = error

    def check(self) -> None:
        """Raise LeaseLost when the lease is gone, and what `also` raises."""
        self._also()
        if self._lost is not None:
            raise self._lost


@contextlib.contextmanager
def held(store: Store, lease: Lease, *, ttl: Seconds, also: Callable[[], None] = lambda: None) -> Iterator[Held]:
    """Renew the lease every third of its time until the block ends. `also`: see `Held`.

    A store that is away is no reason to let go: the lease is asked for again until it answers; whether it was lost
    meanwhile, the store decides.
    """
    keeper = Held(lease, also=also)
    done = threading.Event()

    def beat() -> None:
        while not done.wait(ttl / 3):
            try:
                store.renew(lease, ttl=ttl)
            except LeaseLost as error:
                keeper.lost(error)
                return
            except StoreError:
                continue

    thread = threading.Thread(target=beat, name="lease", daemon=True)
    thread.start()
    try:
        yield keeper
    finally:
        done.set()
        thread.join()
