"""What a webhook is sent: a JSON document of a fixed shape, its `text` for tools that show one line."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from guards.limits import NOTIFICATION_CAUSE_CHARACTERS, NOTIFICATION_TEXT_CHARACTERS
from guards.text import clean
from notifications.facts import Fact

# Chat tools read these as links, or as calls of everybody in the room: a failed program could write them.
_CALL: Final = re.compile(r"@(?=\w)")
# Markdown, whose words may name another address than it leads to, and a bare address.
_LINK: Final = re.compile(r"(?<=\])(?=\()|(?<=:)(?=//)")
_UNSEEN: Final = "\u200b"
_BRACKETS: Final = str.maketrans({"<": "‹", ">": "›"})


def body_of(fact: Fact, key: UUID, at: datetime) -> str:
    """The document as it is sent, byte for byte; every key is always there."""
    return json.dumps(document_of(fact, key, at), ensure_ascii=False)


def document_of(fact: Fact, key: UUID, at: datetime) -> Mapping[str, Any]:
    """The same as a value."""
    return {
        "id": str(key),
        "event": fact.event.value,
        "at": at.isoformat(),
        "text": text_of(fact),
        "scope": fact.scope.path,
        "org": fact.scope.org or None,
        "project": fact.scope.project or None,
        "status": fact.status or None,
        "cause": _cut(fact.cause, NOTIFICATION_CAUSE_CHARACTERS) or None,
        "pipeline": fact.pipeline or None,
        "execution": fact.execution or None,
        "services": list(fact.services),
        "environments": list(fact.environments),
        "delegate": fact.delegate or None,
        "url": f"{settings.PUBLIC_URL}{fact.path}",
    }


def text_of(fact: Fact) -> str:
    """The fact in one line, in which nothing means more to a chat tool than it says."""
    # First made one line: what that leaves out may keep apart what chat tools act on.
    return _cut(for_chat(_line(fact.text)), NOTIFICATION_TEXT_CHARACTERS)


def for_chat(text: str) -> str:
    """A text without what chat tools act on."""
    return _LINK.sub(_UNSEEN, _CALL.sub(f"@{_UNSEEN}", text.translate(_BRACKETS)))


def _line(text: str) -> str:
    return " ".join(clean(text).replace("\x1b", "").split())


def _cut(text: str, most: int) -> str:
    line = _line(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"
