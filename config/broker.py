"""Broker transport that closes its channels at once when the connection is lost."""

from kombu.transport import TRANSPORT_ALIASES, redis


class Channel(redis.Channel):
    """Channel of Valkey that closes at the first attempt.

    kombu 5.7 first reads the pending response. Without a broker that fails, and the channel stays half open.
    The worker then ends with an AttributeError when it closes the channel or acknowledges a message.
    """

    def close(self) -> None:
        """Close the channel. Raises a connection error if messages could not be returned."""
        try:
            super().close()
        except redis.Transport.connection_errors:
            if self.closed:
                raise
            # The lost answer is not waited for twice.
            super().close()


class Transport(redis.Transport):
    """Transport of `redis://` and `rediss://` with channels that close at once."""

    Channel = Channel


def register_transport() -> None:
    """Register this transport for broker URLs of Valkey, with and without TLS."""
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:Transport"
