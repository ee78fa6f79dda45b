"""The clock that all processes share, under the name that what stands above calls it by."""

from web.clock import database_now

__all__ = ["database_now"]
