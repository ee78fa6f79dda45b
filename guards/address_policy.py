"""Policy on the IP addresses that outgoing requests may reach (SSRF protection)."""

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse networks. Raises `ValueError` for an invalid one."""
    return tuple(ipaddress.ip_network(text) for text in texts)


# These addresses return credentials, reach this machine itself, or reach many machines.
_BLOCKED_NETWORKS = parse_networks(
    (
        "169.254.0.0/16",  # metadata of machines and of tasks
        "fe80::/10",
        "fd00:ec2::/32",  # AWS
        "fd20:ce::/32",  # Google
        "168.63.129.16/32",  # Azure, among public addresses
        "100.100.100.200/32",  # Alibaba
        "192.0.0.0/24",  # Oracle's 192.0.0.192 among them
        "0.0.0.0/8",
        "::/128",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "ff00::/8",
        "64:ff9b:1::/48",  # NAT64 of one's own: which address it stands for depends on the network
    )
)
# Python calls some of these global, depending on its version.
_PRIVATE_NETWORKS = parse_networks(
    ("100.64.0.0/10", "192.88.99.0/24", "2001::/23", "2001:db8::/32", "3fff::/20", "fc00::/7", "fec0::/10")
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_TRANSLATED = ipaddress.ip_network("::ffff:0:0:0/96")
_COMPATIBLE = ipaddress.ip_network("::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)


class AddressRefused(Exception):
    """Error raised for a name with a forbidden address."""


@dataclass(frozen=True)
class AddressPolicy:
    """Policy of permitted addresses: public ones, those of `allowed_networks`, or private ones too.

    `advice` ends the error message with the setting to change.
    """

    allows_private: bool = False
    allowed_networks: tuple[Network, ...] = ()
    advice: str = field(default="", compare=False)

    def require(self, host: str, address: str) -> None:
        """Raise `AddressRefused` for an address (as text) that is not within reach; `host` is its name."""
        if refusal := self._describe_refusal(address):
            advice = f"; {self.advice}" if self.advice and "private" in refusal else ""
            raise AddressRefused(f"{host} leads to {address}, {refusal}{advice}")

    def require_literal_address(self, host: str) -> None:
        """Check a host that is an IP address, in any notation; names pass."""
        if address := parse_literal_address(host):
            self.require(host, address)

    def _describe_refusal(self, address: str) -> str:
        parsed = ipaddress.ip_address(address.split("%", 1)[0])
        forms = [parsed, *_extract_ipv4_addresses(parsed)]
        if any(_is_in(form, _BLOCKED_NETWORKS) for form in forms):
            return "and nothing goes there: machines' metadata is there, or nobody in particular"
        mapped = isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None
        checked = forms[1:] if mapped else forms
        if self.allows_private or all(
            _is_public(form) or _is_in(form, self.allowed_networks) for form in checked
        ):
            return ""
        return "which is a private address"


PUBLIC_ONLY = AddressPolicy()
PRIVATE_ALLOWED = AddressPolicy(allows_private=True)


def parse_literal_address(host: str) -> str:
    """Return the IP address that a host spells (10.0.0.7, [::1], 0x7f.1, 2130706433); None for a name."""
    bare = host.strip("[]").rstrip(".")
    try:
        return str(ipaddress.ip_address(bare.split("%", 1)[0]))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(bare)) if bare and not bare[-1].isspace() else ""
    except (OSError, UnicodeError):
        return ""


def _is_public(address: Address) -> bool:
    return address.is_global and not address.is_multicast and not _is_in(address, _PRIVATE_NETWORKS)


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks if network.version == address.version)


def _extract_ipv4_addresses(address: Address) -> list[Address]:
    """Return the IPv4 addresses that an IPv6 address contains."""
    if not isinstance(address, ipaddress.IPv6Address):
        return []
    embedded = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    addresses: list[Address] = [*([address.ipv4_mapped] if address.ipv4_mapped else [])]
    if address.sixtofour:
        addresses.append(address.sixtofour)
    if address.teredo:
        addresses.extend(address.teredo)
    is_compatible = address in _COMPATIBLE and int(address) > 0xFFFF
    is_isatap = (int(address) >> 32 & 0xFFFFFFFF) in _ISATAP
    if address in _NAT64 or address in _TRANSLATED or is_compatible or is_isatap:
        addresses.append(embedded)
    return addresses
