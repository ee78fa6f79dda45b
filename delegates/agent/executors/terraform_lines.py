"""What Terraform says in JSON while it works, as lines for people, and what of it counts afterwards."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from delegates.agent.executors.shell_process import Listener
from guards.masks import Mask

_LEVELS = {"error": "ERROR", "warn": "WARN"}
_COUNTED = {"add": "add", "change": "change", "remove": "destroy", "import": "import"}
# Where the backend names the lock itself, what follows describes the one that was asked for.
_LOCK_IDS = (re.compile(r"already locked: ID=(\S+)"), re.compile(r"^\s*ID:\s+(\S+)\s*$", re.MULTILINE))
MOST_ERRORS, LONGEST_ERROR = 20, 2000


@dataclass
class Progress:
    """Passes lines on in place of the program; keeps its errors, and how much it plans or did."""

    around: Listener
    errors: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    lock_id: str = ""
    has_spoken: bool = False
    changes_anything: bool = False

    @property
    def mask(self) -> Mask:
        return self.around.mask

    def tell(self, texts: Sequence[str], level: str = "INFO") -> None:
        """Take what the program printed; what is no JSON is passed on as it is."""
        for text in texts:
            said = _read(text)
            if said is None:
                self.around.tell([text], level)
            else:
                self._take(said)

    def _take(self, said: Mapping[str, Any]) -> None:
        lines = list(_lines_of(said))
        self.has_spoken = True
        self.changes_anything = self.changes_anything or said.get("type") == "apply_start"
        diagnostic = said.get("diagnostic")
        if isinstance(diagnostic, Mapping) and diagnostic.get("severity") == "error":
            text = "\n".join(lines)
            locks = (pattern.search(text) for pattern in _LOCK_IDS)
            self.lock_id = next((one[1] for one in locks if one), self.lock_id)
            if len(self.errors) < MOST_ERRORS:
                self.errors.append(self.mask.text(text)[:LONGEST_ERROR])
        changes = said.get("changes")
        if said.get("type") == "change_summary" and isinstance(changes, Mapping):
            self.counts = {
                ours: found
                for theirs, ours in _COUNTED.items()
                if isinstance(found := changes.get(theirs), int)
            }
        self.around.tell(lines, _LEVELS.get(str(said.get("@level")), "INFO"))


def _read(text: str) -> Mapping[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, Mapping) and "@message" in said else None


def _lines_of(said: Mapping[str, Any]) -> Iterator[str]:
    """The message, and below it what a diagnostic says beside: where it is, and its details."""
    yield from str(said["@message"]).splitlines()
    diagnostic = said.get("diagnostic")
    if not isinstance(diagnostic, Mapping):
        return
    place = diagnostic.get("range")
    if isinstance(place, Mapping) and isinstance(place.get("start"), Mapping):
        yield f"  on {place.get('filename')}, line {place['start'].get('line')}"
    yield from (f"  {line}" for line in str(diagnostic.get("detail") or "").splitlines())
