"""Live updates that the sockets of one process share."""

from deployments.live.broadcaster import (
    LARGEST_FRAME,
    ExecutionBroadcaster,
    build_frames,
    get_execution_broadcaster,
)

__all__ = [
    "ExecutionBroadcaster",
    "LARGEST_FRAME",
    "build_frames",
    "get_execution_broadcaster",
]
