"""Pages hear that what they show has changed: they name topics, one socket listens, nobody asks by itself."""

from web.news.subjects import Audience, Shown, Subject, at_places, enter, in_scopes
from web.news.telling import changed, changed_now

__all__ = ["Audience", "Shown", "Subject", "at_places", "changed", "changed_now", "enter", "in_scopes"]
