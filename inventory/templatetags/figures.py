"""Template filters that format shares, percentages and durations."""

from datetime import datetime

from django import template

from web.templatetags.slipway import format_duration

register = template.Library()

EMPTY_VALUE = "–"


@register.filter
def share(value: float | None) -> str:
    """Format a share from 0 to 1 in percent."""
    return EMPTY_VALUE if value is None else f"{value * 100:.0f} %"


@register.filter
def per_cent(value: float | None) -> str:
    """Format a share from 0 to 100 in percent."""
    return EMPTY_VALUE if value is None else f"{value:.1f} %"


@register.filter
def length_of_time(seconds: float | None) -> str:
    """Format a duration."""
    return EMPTY_VALUE if seconds is None else format_duration(seconds)


@register.filter
def as_moment(text: str) -> datetime:
    """Parse a stored date and time."""
    return datetime.fromisoformat(text)
