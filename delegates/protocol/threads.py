"""Where the loop lets the database be asked: a few threads, so that many agents need few connections."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import close_old_connections, connection

THREADS = 8
Given = ParamSpec("Given")
Result = TypeVar("Result")
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="agents")


async def in_thread(work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
    """Do what asks the database in a thread, with this task's context and a connection of its own."""
    context = contextvars.copy_context()

    def connected() -> Result:
        try:
            return work(*args, **kwargs)
        finally:
            _give_back()

    return await asyncio.get_running_loop().run_in_executor(_pool, context.run, connected)


def _give_back() -> None:
    """Give the connection back to its pool. A file has none, and to open it costs more than to ask it."""
    if connection.vendor != "sqlite":
        close_old_connections()
    elif connection.errors_occurred:
        connection.close()
