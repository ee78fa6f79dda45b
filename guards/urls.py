"""Parser of URLs that people enter, and checked resolution of their hosts."""

import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from guards.address_policy import PUBLIC_ONLY, AddressPolicy, AddressRefused
from guards.limits import URL_CHARACTERS

DEFAULT_PORTS = {"http": 80, "https": 443}
# Below 1024 only web ports; above, no databases and similar, whose protocols could execute a request.
_FIRST_UNPRIVILEGED_PORT = 1024
_NON_WEB_PORTS = frozenset(
    (1719, 1720, 1723, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 3659, 4045, 4190, 5060, 5061, 5432, 5672)
    + (6000, 6379, 6380, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 7000, 7001, 9042, 9092, 10080)
    + (10250, 10255, 11211, 26379, 27017, 27018, 50070)
)


class InvalidUrl(ValueError):
    """Error raised for a text that is not a usable URL."""


class HostNotResolved(Exception):
    """No address was found for the name."""


@dataclass(frozen=True)
class UrlTarget:
    """Parts of a URL."""

    scheme: str
    host: str
    port: int
    host_header: str
    """Host and port as they stand in the URL, for the Host header."""


@dataclass(frozen=True)
class ResolvedHost:
    """A host by its name, and the addresses that were checked; the first one is connected to."""

    host: str
    port: int
    addresses: tuple[str, ...]

    @property
    def address(self) -> str:
        return self.addresses[0]

    @property
    def url_address(self) -> str:
        """Return the address in URL notation."""
        return f"[{self.address}]" if ":" in self.address else self.address


def parse_url(url: str) -> UrlTarget:
    """Parse a URL. Raises `InvalidUrl` for forbidden schemes and ports, and for ambiguous texts."""
    # Checked first: `urlsplit` drops some of them, which changes the host.
    if any(ord(character) <= 32 or ord(character) == 127 or character == "\\" for character in url):
        raise InvalidUrl("the address holds spaces, control characters or backslashes")
    if len(url) > URL_CHARACTERS:
        raise InvalidUrl(f"the address is longer than {URL_CHARACTERS}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidUrl(f"the address cannot be read: {error}") from error
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise InvalidUrl("the address must begin with https:// or http:// and name a host")
    host, host_header = _encode_host(parts.hostname), parts.netloc.rpartition("@")[2]
    if not host_header.isascii():
        host_header = host if port is None else f"{host}:{port}"
    port = DEFAULT_PORTS[parts.scheme] if port is None else port
    if port not in DEFAULT_PORTS.values() and (port < _FIRST_UNPRIVILEGED_PORT or port in _NON_WEB_PORTS):
        raise InvalidUrl(f"port {port} is not a web port; use 443, 80 or the port of a web server above 1023")
    return UrlTarget(parts.scheme, host, port, host_header)


def _encode_host(host: str) -> str:
    """Return the encoded host name for DNS and the request, as the system encodes it."""
    if host.isascii():
        return host
    try:
        encoded = host.encode("idna").decode()
    except UnicodeError as error:
        raise InvalidUrl(f"{host!r} is no name of a host: {error}") from error
    # Wide forms of signs have become those signs.
    if not all(sign.isalnum() or sign in "-._" for sign in encoded):
        raise InvalidUrl(f"{host!r} is no name of a host")
    return encoded


def describe_url_problem(url: str, address_policy: AddressPolicy = PUBLIC_ONLY) -> str:
    """Return the problem of a URL without resolving its name; "" for a valid one."""
    try:
        target = parse_url(url)
        address_policy.require_literal_address(target.host)
    except (InvalidUrl, AddressRefused) as error:
        return str(error)
    return "the address must not hold a user name or password" if "@" in urlsplit(url).netloc else ""


def resolve_host(host: str, port: int, address_policy: AddressPolicy = PUBLIC_ONLY) -> ResolvedHost:
    """Resolve a name once and check every address. Raises `AddressRefused`, `HostNotResolved`."""
    if any(ord(character) <= 32 for character in host):
        raise AddressRefused(f"{host!r} is not a host name")
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HostNotResolved(f"the name {host} was not resolved: {error}") from error
    addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in entries))
    if not addresses:
        raise HostNotResolved(f"the name {host} has no address")
    for address in addresses:
        address_policy.require(host, address)
    return ResolvedHost(host, port, addresses)
