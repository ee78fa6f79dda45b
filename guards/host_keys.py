"""Public keys of SSH servers: parser and fingerprints."""

import base64
import binascii
import hashlib
from dataclasses import dataclass

from guards.limits import HOST_KEY_CHARACTERS, HOST_KEYS

HOST_KEY_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)


class InvalidHostKey(ValueError):
    """A text is no public key of an SSH server."""


@dataclass(frozen=True)
class HostKey:
    """One public key: its type, and its body in base64."""

    type: str
    body: str

    def __str__(self) -> str:
        return f"{self.type} {self.body}"

    @property
    def fingerprint(self) -> str:
        """Return the hash that ssh shows to people: SHA256: and 43 characters."""
        digest = hashlib.sha256(base64.b64decode(self.body)).digest()
        return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def parse_host_keys(text: str) -> tuple[HostKey, ...]:
    """Return the keys of a text, one a line, as `ssh-keyscan` or a `.pub` file have them.

    Raises `InvalidHostKey`.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if len(lines) > HOST_KEYS:
        raise InvalidHostKey(f"there are more than {HOST_KEYS}")
    return tuple(dict.fromkeys(_parse_host_key(line) for line in lines))


def _parse_host_key(line: str) -> HostKey:
    words = line.split()
    type_index = next((number for number, word in enumerate(words[:2]) if word in HOST_KEY_TYPES), None)
    if len(line) > HOST_KEY_CHARACTERS or type_index is None or len(words) < type_index + 2:
        raise InvalidHostKey("a line is no public key of an SSH server: take what ssh-keyscan prints")
    key = HostKey(words[type_index], words[type_index + 1])
    if _read_key_type(key.body) != key.type:
        raise InvalidHostKey(f"the {key.type} key is not whole: copy it again")
    return key


def _read_key_type(body: str) -> str:
    """Return the type in a key's body, or an empty text for an invalid body."""
    try:
        raw = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return ""
    fields = []
    while len(raw) >= 4:
        length = int.from_bytes(raw[:4], "big")
        fields.append(raw[4 : 4 + length])
        raw = raw[4 + length :] if len(raw) >= 4 + length else b"?"
    return fields[0].decode("ascii", "replace") if len(fields) > 1 and not raw else ""
