"""The demo project on a sandbox whose clock the test moves, and a pipeline for each strategy."""

from tests.blue_green.conftest import shop
from tests.deployments.conftest import _full_buckets, drive
from tests.run_task.conftest import job

__all__ = ["_full_buckets", "drive", "job", "shop"]
