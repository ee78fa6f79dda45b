"""What the sockets of a process share: one ear on the channel layer for all delegates, not one a viewer."""

from delegates.watching.hub import Hub, shared_hub

__all__ = ["Hub", "shared_hub"]
