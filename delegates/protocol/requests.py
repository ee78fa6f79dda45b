"""What an agent asks, as it arrived: its address, who it says it is, and the body within its size."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from delegates.protocol.fields import Fields, read_object
from guards.limits import AGENT_BYTES
from web.problems import BadInput, TooLarge

_LARGEST = f"A message may have {AGENT_BYTES} at most. Send less at once."
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True)
class AgentRequest:
    """One request; `headers` have names in lower case."""

    path: str
    address: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    task_id: str = ""

    @property
    def bearer(self) -> str:
        """The credential of the Authorization header; empty where there is none."""
        scheme, _, credential = self.headers.get("authorization", "").partition(" ")
        return credential.strip() if scheme.lower() == "bearer" else ""

    def fields(self) -> Fields:
        """The JSON object of the body. Raises `BadInput`, `TooLarge`."""
        return Fields(self.object())

    def object(self) -> dict[str, Any]:
        """The JSON object of the body, texts as they came. Raises `BadInput`, `TooLarge`."""
        body = self._unpacked()
        try:
            text = body.decode()
        except UnicodeDecodeError as problem:
            raise BadInput(f"The body is not UTF-8: look at byte {problem.start + 1}.") from problem
        return read_object(text) if text.strip() else {}

    def _unpacked(self) -> bytes:
        if len(self.body) > AGENT_BYTES:
            raise TooLarge(_LARGEST)
        packing = self.headers.get("content-encoding", "identity").strip().lower()
        if packing == "identity":
            return self.body
        if packing != "gzip":
            raise BadInput("The body is packed in a way that is not known here. Use gzip, or none.")
        unpacker = zlib.decompressobj(_GZIP)
        try:
            body = unpacker.decompress(self.body, AGENT_BYTES + 1)
        except zlib.error as problem:
            raise BadInput("The body is not what gzip makes.") from problem
        if len(body) > AGENT_BYTES:
            raise TooLarge(_LARGEST)
        if not unpacker.eof or unpacker.unused_data:
            raise BadInput("The packed body has no end, or more than one.")
        return body


@dataclass(frozen=True)
class Reply:
    """What the agent is answered."""

    content: Mapping[str, Any] = field(repr=False)
    status: int = 200
    retry_after: int = 0
