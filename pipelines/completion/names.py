"""One name that an expression may use, what it comes to, and how the names of a document are listed."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from guards.limits import KNOWN_VALUE_CHARACTERS
from steps.expressions import is_path

STARS = "****"
LONGEST_SEARCH = 200
# A page of the list is named by a path; nobody writes longer ones.
LONGEST_PATH = 400


AFTER_LAST = "After the last step"


@dataclass(frozen=True)
class Choice:
    """A place that people choose: `key` names it in addresses, as STAGE/STEP; `group` is its stage."""

    key: str
    title: str
    group: str

    def in_rollback(self) -> "Choice":
        """The same among the rollback steps of its stage."""
        return replace(self, group=f"{self.group}, rollback")


class State(StrEnum):
    """Whether a name has a value, and whether it may be shown."""

    KNOWN = "KNOWN"
    SECRET = "SECRET"  # noqa: S105 - a state, not a password
    HIDDEN = "HIDDEN"
    LATER = "LATER"


@dataclass(frozen=True)
class Known:
    """What an expression may name: `path` without its brackets, and who sets it in `source`.

    `value` is None unless it is known and may be shown, and the stars of a secret.
    """

    path: str
    source: str
    about: str = ""
    state: State = State.KNOWN
    value: Any = None

    @property
    def expression(self) -> str:
        """As it is written."""
        return f"<+{self.path}>"

    @property
    def text(self) -> str:
        """The value as people read it, cut where it is long."""
        text = self.whole
        most = int(KNOWN_VALUE_CHARACTERS)
        return text if len(text) <= most else f"{text[:most]}…"

    @property
    def whole(self) -> str:
        """The value as a text."""
        return self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)

    @property
    def is_cut(self) -> bool:
        return len(self.whole) > KNOWN_VALUE_CHARACTERS


def step_title(name: str, identifier: str) -> str:
    """How people choose a step: by its name, and by what expressions call it."""
    return f"Step {name or identifier}" if identifier in name or not name else f"Step {name} ({identifier})"


def secret(one: Known) -> Known:
    """The same name with its value kept back."""
    return replace(one, state=State.SECRET, value=STARS)


def leaves(value: Any, before: str) -> Iterator[tuple[str, Any]]:
    """Every path below a value with what it comes to; what no path can name stays inside its parent."""
    if isinstance(value, Mapping) and value and all(_fits(before, str(key)) for key in value):
        for key, item in value.items():
            yield from leaves(item, f"{before}.{key}" if before else str(key))
    elif before and value != {}:
        yield before, value


def _fits(before: str, key: str) -> bool:
    return is_path(key) and len(before) + len(key) < LONGEST_PATH


def listed(found: Iterable[Known], search: str = "") -> list[Known]:
    """The names in alphabetical order, each once, narrowed to those with `search` in them or their value."""
    wanted = search.strip().removeprefix("<+").removesuffix(">").casefold()[:LONGEST_SEARCH]
    by_path = {one.path: one for one in found}
    ordered = [by_path[path] for path in sorted(by_path)]
    return [one for one in ordered if wanted in _searched(one)] if wanted else ordered


def _searched(one: Known) -> str:
    shown = one.whole if one.state == State.KNOWN and one.value is not None else ""
    return f"{one.path}\n{one.source}\n{shown}".casefold()
