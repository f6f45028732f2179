"""A target in this process."""

import json
from types import TracebackType
from typing import Any, Dict, List, Optional, Type

from . import _weft


class Target:
    """A target that serves what a configuration asks for: the text of a file for
    `weft serve --config`. When it has started, hosts can connect. Port 0 picks a free port, which
    `urls` has."""

    __slots__ = ("__weakref__", "_target")

    def __init__(self, configuration: str) -> None:
        self._target = _weft.Target(configuration)

    def __enter__(self) -> "Target":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.stop()

    @property
    def urls(self) -> List[str]:
        """The URLs by which hosts reach what it serves."""
        return self._target.urls

    @property
    def stopped(self) -> bool:
        """Whether it was stopped."""
        return self._target.stopped

    def set_filters(self, filters: str, *, nsid: int = 1, subsystem: Optional[str] = None) -> None:
        """Put filters in front of a namespace, in the place of those before.

        They are the front of a URL with `error:`, `delay:` and `limit:`; an empty text is none.
        They count for operations that begin later.
        """
        self._target.set_filters(filters, nsid=nsid, subsystem=subsystem)

    def apply(self, configuration: str) -> None:
        """Serve what another configuration asks for, as `weft apply --force` does.

        `listen` and the tables that take effect at the start must be as they were.
        """
        self._target.apply(configuration)

    def disconnect(self) -> None:
        """Close all connections. Hosts may come back at once."""
        self._target.disconnect()

    def leave(self) -> None:
        """Stop listening, and close all connections, until `come_back()`."""
        self._target.leave()

    def come_back(self) -> None:
        """Listen again at the same addresses."""
        self._target.come_back()

    def counters(self) -> Dict[str, int]:
        """Return what was counted: connections, commands, bytes, errors."""
        return dict(self._target.counters())

    def report(self) -> Dict[str, Any]:
        """Return its state, as `weft status --json` prints it."""
        state: Dict[str, Any] = json.loads(self._target.report())
        return state

    def stop(self) -> None:
        """End the target: commands in flight have some seconds, then connections close."""
        self._target.stop()
