"""When the web process looks for garbage: after each answer, when there is most of it and little else."""

import gc
from typing import Final

from web.front_door import Application, AsgiScope, Receive, Send

# Left to itself the collector looks in the middle of a page, and through all that has lived a while: 100 ms.
_SELDOM: Final = (20_000, 20, 100)
_YOUNG: Final = 1


def look_seldom() -> None:
    """Leave out what is loaded now, which stays for good; from here on look where `look_now` is called."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_SELDOM)


def look_now() -> None:
    """Look through what was made lately; half a millisecond after a page."""
    gc.collect(_YOUNG)


class ClearedAfterwards:
    """Looks for garbage once a request has been answered."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        try:
            await self.application(scope, receive, send)
        finally:
            look_now()
