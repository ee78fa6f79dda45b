"""Does work in this process, with the executors of the agent, where no delegate is asked for it."""

import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from django.conf import settings

from delegates.agent.executors import Answer, Surroundings, execute
from delegates.agent.isolation import own_isolation
from delegates.agent.work import Held, Task
from delegates.owners import Payload
from web.outgoing import own_reach


def do_here(kind: str, payload: Payload, *, seconds: float) -> Answer:
    """Do one unit of work within this process and the addresses that this Slipway may ask.

    `kind` is one of `DelegateTask.Kind`; scripts are refused.
    """
    task = Task(
        id=str(uuid4()),
        kind=kind,
        params=dict(payload.params),
        fence=1,
        acquired_at=time.monotonic(),
        timeout_seconds=seconds,
        mask=payload.mask,
    )
    around = Surroundings(
        _Nowhere(),
        blocks_shell=True,
        reach=own_reach(),
        git_cache=settings.GIT_CACHE,
        isolation=own_isolation().hiding(settings.HOME),
    )
    return execute(Held(task), around)


class _Nowhere:
    """What work done here would log."""

    def write(self, level: str, text: str) -> None:
        """Requests and files say all that they have to say in their answer."""


def sealed(params: Mapping[str, Any], values: Mapping[str, str]) -> Payload:
    """The parameters with secrets put in; `values` go from a path such as `environment.TOKEN` to a value."""
    filled = {name: dict(one) if isinstance(one, Mapping) else one for name, one in params.items()}
    for path, value in values.items():
        name, _, inside = path.partition(".")
        if inside:
            filled.setdefault(name, {})[inside] = value
        else:
            filled[name] = value
    return Payload(filled, mask=tuple(values.values()))
