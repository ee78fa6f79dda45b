"""A resolver whose answers change, as those of somebody who wants to lead a server astray."""

import socket
from typing import Any

import pytest


class Rebinding:
    """Answers one name with one address after the other, the last one for ever; other names as always."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, *addresses: str) -> None:
        self.name, self.addresses, self.query_count = name, list(addresses), 0
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self)

    def __call__(self, host: Any, *args: Any, **kwargs: Any) -> Any:
        if host != self.name:
            return self._real(host, *args, **kwargs)
        address = self.addresses[min(self.query_count, len(self.addresses) - 1)]
        self.query_count += 1
        return self._real(address, *args, **kwargs)
