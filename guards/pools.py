"""Connections of urllib3 that go to the address that was checked, for the libraries that stand on it."""

import socket
from collections.abc import Callable
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
from urllib3.util.connection import create_connection

from guards.addresses import AddressRefused, Reach
from guards.places import NameNotResolved, find_place

PoolClasses = dict[str, type[HTTPConnectionPool]]


def guarded_pools(
    reach: Callable[[], Reach],
    *,
    http: type[HTTPConnection] = HTTPConnection,
    https: type[HTTPSConnection] = HTTPSConnection,
) -> PoolClasses:
    """Pools by scheme whose connections resolve once, check, and connect to what was checked.

    An address that is refused ends as urllib3's `NewConnectionError`: nothing was sent.
    """

    class Checked:
        def _new_conn(self) -> socket.socket:
            return _connect(self, reach())

    guarded_http = type("GuardedConnection", (Checked, http), {})
    guarded_https = type("GuardedTlsConnection", (Checked, https), {})
    return {
        "http": type("GuardedPool", (HTTPConnectionPool,), {"ConnectionCls": guarded_http}),
        "https": type("GuardedTlsPool", (HTTPSConnectionPool,), {"ConnectionCls": guarded_https}),
    }


def _connect(connection: Any, reach: Reach) -> socket.socket:
    try:
        place = find_place(connection._dns_host, connection.port, reach)
        return _first_of(place.addresses, connection)
    except (AddressRefused, NameNotResolved) as problem:
        raise NewConnectionError(connection, str(problem)) from problem
    except TimeoutError as problem:
        raise ConnectTimeoutError(connection, f"{connection.host} did not answer in time") from problem
    except OSError as problem:
        raise NewConnectionError(connection, f"no connection to {connection.host}: {problem}") from problem


def _first_of(addresses: tuple[str, ...], connection: Any) -> socket.socket:
    """A connection to the first address that takes one."""
    for address in addresses[:-1]:
        try:
            return _to(address, connection)
        except OSError:
            continue
    return _to(addresses[-1], connection)


def _to(address: str, connection: Any) -> socket.socket:
    return create_connection(
        (address, connection.port),
        connection.timeout,
        source_address=connection.source_address,
        socket_options=connection.socket_options,
    )
