"""The demo project, deployed and looked at."""

from tests.deployments.conftest import _full_buckets, drive

__all__ = ["_full_buckets", "drive"]
