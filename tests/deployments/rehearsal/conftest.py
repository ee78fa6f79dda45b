"""The demo project on a sandbox that stands for the real account."""

from tests.deployments.conftest import _full_buckets, drive
from tests.deployments.engine.conftest import write

__all__ = ["_full_buckets", "drive", "write"]
