"""Broker transport that closes its channels at once when the connection is lost."""

from kombu.transport import TRANSPORT_ALIASES, redis


class Channel(redis.Channel):
    """A channel of Valkey that one attempt closes.

    kombu 5.7 first reads the answer that it still waits for. When the broker is gone that fails, the channel
    stays half open, and the worker ends by an AttributeError as it closes it again or acknowledges a message.
    """

    def close(self) -> None:
        """Close it. Raises a connection error, after that, where messages could not be given back."""
        try:
            super().close()
        except redis.Transport.connection_errors:
            if self.closed:
                raise
            # The lost answer is not waited for twice.
            super().close()


class Transport(redis.Transport):
    """The transport of `redis://` with such channels."""

    Channel = Channel


def register_transport() -> None:
    """Let addresses of the broker that begin with `redis` mean this transport."""
    TRANSPORT_ALIASES["redis"] = f"{__name__}:Transport"
