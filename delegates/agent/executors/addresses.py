"""Where a name leads, and whether a task may go there: never to the addresses that give credentials away."""

import ipaddress
import socket
from dataclasses import dataclass

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# Link-local holds the metadata of the machine and of the task (169.254.169.254, 169.254.170.2).
_REFUSED = tuple(
    ipaddress.ip_network(text)
    for text in (
        "169.254.0.0/16",
        "fe80::/10",
        "fd00:ec2::/32",
        "0.0.0.0/8",
        "::/128",
        "224.0.0.0/4",
        "ff00::/8",
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_COMPATIBLE = ipaddress.ip_network("::/96")


class AddressRefused(Exception):
    """The name leads where no task may go."""


class NameNotResolved(Exception):
    """No address was found for the name."""


@dataclass(frozen=True)
class Place:
    """A host by its name, and the one address that was checked and is connected to."""

    host: str
    address: str
    port: int

    @property
    def url_host(self) -> str:
        """The address as it stands in a URL."""
        return f"[{self.address}]" if ":" in self.address else self.address


def find_place(host: str, port: int) -> Place:
    """Resolve a name once and check every address. Raises `AddressRefused`, `NameNotResolved`."""
    if any(ord(character) <= 32 for character in host):
        raise AddressRefused(f"{host!r} is not a host name")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        raise NameNotResolved(f"the name {host} was not resolved: {problem}") from problem
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        refuse(host, address)
    return Place(host, addresses[0], port)


def refuse(host: str, address: str) -> None:
    """Raises `AddressRefused` for an address that no task may go to, in whatever form it is written."""
    one: _Address = ipaddress.ip_address(address.split("%", 1)[0])
    for form in (one, *_hidden_in(one)):
        if any(form in network for network in _REFUSED if network.version == form.version):
            raise AddressRefused(
                f"{host} leads to {address}, and no delegate goes there: machines' metadata is there"
            )


def _hidden_in(address: _Address) -> list[_Address]:
    """The IPv4 addresses that an IPv6 address stands for."""
    if not isinstance(address, ipaddress.IPv6Address):
        return []
    found: list[_Address] = [*([address.ipv4_mapped] if address.ipv4_mapped else [])]
    if address.sixtofour:
        found.append(address.sixtofour)
    if address.teredo:
        found.extend(address.teredo)
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 0xFFFF):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found
