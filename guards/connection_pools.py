"""Connection pools of urllib3 that connect only to checked addresses."""

import socket
from collections.abc import Callable
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
from urllib3.util.connection import create_connection

from guards.address_policy import AddressPolicy, AddressRefused
from guards.urls import HostNotResolved, resolve_host

PoolClasses = dict[str, type[HTTPConnectionPool]]


def build_guarded_pools(
    get_address_policy: Callable[[], AddressPolicy],
    *,
    http: type[HTTPConnection] = HTTPConnection,
    https: type[HTTPSConnection] = HTTPSConnection,
) -> PoolClasses:
    """Return connection pools by scheme that resolve once, check, and connect to the checked address.

    A forbidden address raises urllib3's `NewConnectionError`; nothing is sent.
    """

    class Checked:
        def _new_conn(self) -> socket.socket:
            return _connect(self, get_address_policy())

    guarded_http = type("GuardedConnection", (Checked, http), {})
    guarded_https = type("GuardedTlsConnection", (Checked, https), {})
    return {
        "http": type("GuardedPool", (HTTPConnectionPool,), {"ConnectionCls": guarded_http}),
        "https": type("GuardedTlsPool", (HTTPSConnectionPool,), {"ConnectionCls": guarded_https}),
    }


def _connect(connection: Any, address_policy: AddressPolicy) -> socket.socket:
    try:
        resolved = resolve_host(connection._dns_host, connection.port, address_policy)
        return _connect_first_available(resolved.addresses, connection)
    except (AddressRefused, HostNotResolved) as error:
        raise NewConnectionError(connection, str(error)) from error
    except TimeoutError as error:
        raise ConnectTimeoutError(connection, f"{connection.host} did not answer in time") from error
    except OSError as error:
        raise NewConnectionError(connection, f"no connection to {connection.host}: {error}") from error


def _connect_first_available(addresses: tuple[str, ...], connection: Any) -> socket.socket:
    """Return a connection to the first address that takes one."""
    for address in addresses[:-1]:
        try:
            return _connect_to_address(address, connection)
        except OSError:
            continue
    return _connect_to_address(addresses[-1], connection)


def _connect_to_address(address: str, connection: Any) -> socket.socket:
    return create_connection(
        (address, connection.port),
        connection.timeout,
        source_address=connection.source_address,
        socket_options=connection.socket_options,
    )
