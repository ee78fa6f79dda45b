"""Addresses of SSH servers, by which their host keys are kept."""

import pytest

from connectors.host_keys import get_server_address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("ssh://git@git.example.com:2222/team/app.git", "git.example.com:2222"),
        ("git@git.example.com:team/app.git", "git.example.com:22"),
        ("https://git.example.com/team/app.git", ""),
        # An earlier release stored it; its page must still open.
        ("ssh://git@git.example.com:team/app.git", ""),
        ("ssh://git@git.example.com:99999/app.git", ""),
    ],
)
def test_an_ssh_server_is_known_by_its_host_and_port(url: str, address: str) -> None:
    assert get_server_address(url) == address
