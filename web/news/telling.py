"""Says that things have changed: after the commit, once for all that changes in a moment."""

from typing import Any, Final

from django.db import transaction

from web.telling import tell_gathered

GROUP: Final = "news"
KIND: Final = "news.changed"


def changed(subject: str, *keys: Any) -> None:
    """After the commit under way, have pages that show these things look; nobody depends on its arrival."""
    transaction.on_commit(lambda: changed_now(subject, *keys), robust=True)


def changed_now(subject: str, *keys: Any) -> None:
    """The same, for what is committed already."""
    tell_gathered(GROUP, KIND, subject, *map(str, keys))
