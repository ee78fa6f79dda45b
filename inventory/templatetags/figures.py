"""How figures are spelled: shares and lengths of time."""

from datetime import datetime

from django import template

from web.templatetags.slipway import spell

register = template.Library()

NOTHING = "–"


@register.filter
def share(value: float | None) -> str:
    """A share from 0 to 1 in per cent."""
    return NOTHING if value is None else f"{value * 100:.0f} %"


@register.filter
def per_cent(value: float | None) -> str:
    """A share from 0 to 100 in per cent."""
    return NOTHING if value is None else f"{value:.1f} %"


@register.filter
def length_of_time(seconds: float | None) -> str:
    """A length of time as people say it."""
    return NOTHING if seconds is None else spell(seconds)


@register.filter
def as_moment(text: str) -> datetime:
    """A moment that is kept as text."""
    return datetime.fromisoformat(text)
