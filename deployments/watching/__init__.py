"""What the sockets of a process share: one ear on the channel layer for each execution, not one a viewer."""

from deployments.watching.frames import LARGEST_FRAME, frames_of
from deployments.watching.hub import Hub, hub_of

__all__ = ["LARGEST_FRAME", "Hub", "frames_of", "hub_of"]
