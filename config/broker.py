"""Broker transport that closes its channels at once when the connection is lost, and goes on after it."""

from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis


class QoS(redis.QoS):
    """Messages of a worker that are not acknowledged, of which it takes so many at most.

    In kombu 5.7 a message whose acknowledgement failed counts until the channel is closed. A short outage
    closes none, so after some of them a worker takes no message any more.
    """

    def ack(self, delivery_tag: Any) -> None:
        """Acknowledge a message, which no longer counts. Raises a connection error.

        The broker delivers it again, if it still has it.
        """
        try:
            super().ack(delivery_tag)
        except redis.Transport.connection_errors:
            super(redis.QoS, self).ack(delivery_tag)
            raise

    def reject(self, delivery_tag: Any, requeue: bool = False) -> None:
        """Reject a message, which no longer counts. Raises a connection error."""
        try:
            super().reject(delivery_tag, requeue=requeue)
        except redis.Transport.connection_errors:
            super(redis.QoS, self).ack(delivery_tag)
            raise


class Channel(redis.Channel):
    """Channel of Valkey that closes at the first attempt, and counts its messages as `QoS` does.

    kombu 5.7 first reads the pending response. Without a broker that fails, and the channel stays half open.
    The worker then ends with an AttributeError when it closes the channel or acknowledges a message.
    """

    QoS = QoS

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
