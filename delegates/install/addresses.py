"""Addresses of Slipway as delegates reach them."""

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def find_address_problem(url: str) -> tuple[str, str]:
    """Return why a delegate cannot or should not use an address, and the remedy; empty if it is fine."""
    parts = urlsplit(url)
    if is_loopback(parts.hostname or ""):
        return "is the address of the delegate's own host", "use an address that other machines reach"
    if parts.scheme == "http":
        return "sends tokens and results unencrypted", "use https in production"
    return "", ""
