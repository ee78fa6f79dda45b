"""The keys of SSH servers, as people paste them."""

import asyncssh
import pytest

from guards.host_keys import InvalidHostKey, parse_host_keys
from guards.limits import HOST_KEYS

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"


@pytest.mark.parametrize(
    "text",
    [KEY, f"github.com {KEY}", f"{KEY} me@example.com", f"# github.com:22\n\n[a.b]:2222 {KEY}\r\n{KEY}"],
)
def test_a_key_is_read_as_ssh_keyscan_and_files_have_it(text: str) -> None:
    (key,) = parse_host_keys(text)
    assert str(key) == KEY
    assert key.fingerprint == "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"


@pytest.mark.parametrize("kind", ["ssh-rsa", "ecdsa-sha2-nistp256"])
def test_fingerprints_are_those_that_ssh_shows(kind: str) -> None:
    private_key = asyncssh.generate_private_key(kind)
    (key,) = parse_host_keys(private_key.export_public_key().decode())
    assert key.fingerprint == private_key.get_fingerprint()


@pytest.mark.parametrize(
    "text",
    [
        "AAAAC3NzaC1lZDI1NTE5",
        KEY[:40],
        KEY.replace("ssh-ed25519", "ssh-rsa"),
        "ssh-ed25519 not-base64!",
        "ssh-dss AAAAB3NzaC1kc3M=",
        f"{KEY}{'A' * 5000}",
        "a b c d ssh-ed25519 AAAA",
        "ssh-ed25519 ÄÖÜ",
    ],
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidHostKey):
        parse_host_keys(text)


def test_there_are_not_too_many() -> None:
    with pytest.raises(InvalidHostKey, match="more than 10"):
        parse_host_keys(f"{KEY}\n" * (HOST_KEYS + 1))
