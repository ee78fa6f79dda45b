"""Template tags of every page: icons, statuses, times, durations, copy buttons."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django import template
from django.template import Context
from django.template.defaultfilters import stringfilter
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from rbac.models import Scope
from web.managed_resources import Management, find_management
from web.statuses import TERMINAL_STATUSES, get_status_badge

register = template.Library()

SPINNING_SHAPES = {"running"}
DEEPEST_INDENT = 4
# A page of a list has hundreds of a few kinds.
CACHED_ICONS = 512
_TIME_FORMATS = {"hour": "%H:%M UTC", "clock": "%H:%M:%S UTC"}


@register.simple_tag
@lru_cache(CACHED_ICONS)
def icon(name: str, css: str = "") -> SafeString:
    """Render an icon of the sprite, hidden from screen readers: the adjacent label has the meaning."""
    return format_html(
        '<svg class="icon {}" aria-hidden="true" focusable="false"><use href="#i-{}"/></svg>', css, name
    )


@register.simple_tag
def management_of(resource: object) -> Management | None:
    """Return where a resource is managed; None for one that is edited in Slipway."""
    return find_management(resource)


@register.simple_tag
@lru_cache(CACHED_ICONS)
def mark(status: str | None) -> SafeString:
    """Render only the shape of a status, with its label for screen readers."""
    badge = get_status_badge(status)
    return format_html(
        '<svg class="icon mark tone-{}{}" role="img" aria-label="{}"><use href="#s-{}"/></svg>',
        badge.tone,
        " spin" if badge.shape in SPINNING_SHAPES else "",
        badge.word,
        badge.shape,
    )


@register.simple_tag
@lru_cache(CACHED_ICONS)
def status(value: str | None, word: str = "") -> SafeString:
    """Render a status as label, shape and color; `word` replaces the label."""
    badge = get_status_badge(value)
    return format_html(
        '<span class="status tone-{}"><svg class="icon{}" aria-hidden="true" focusable="false">'
        '<use href="#s-{}"/></svg>{}</span>',
        badge.tone,
        " spin" if badge.shape in SPINNING_SHAPES else "",
        badge.shape,
        word or badge.word,
    )


@register.filter
def has_ended(value: str | None) -> bool:
    return value in TERMINAL_STATUSES


@register.simple_tag
def when(moment: datetime | str | None, style: str = "full") -> SafeString | str:
    """Render a `<time>` in UTC; the page's script converts it to the reader's zone.

    `style` is `full`, `ago`, `hour` for hours and minutes alone, or `clock` with seconds.
    """
    parsed = parse_datetime(moment) if isinstance(moment, str) else moment
    if parsed is None:
        return "–"
    utc = parsed.astimezone(UTC)
    return format_html(
        '<time datetime="{}" data-when="{}">{}</time>',
        utc.isoformat(),
        style,
        utc.strftime(_TIME_FORMATS.get(style, "%Y-%m-%d %H:%M UTC")),
    )


@register.simple_tag
def duration(start: datetime | str | None, end: datetime | str | None = None) -> SafeString | str:
    """Render the time between two moments; without an end, the page's script keeps counting."""
    begin = parse_datetime(start) if isinstance(start, str) else start
    finish = parse_datetime(end) if isinstance(end, str) else end
    if begin is None:
        return "–"
    if finish is None:
        return format_html(
            '<span data-since="{}">{}</span>',
            begin.astimezone(UTC).isoformat(),
            format_duration((datetime.now(UTC) - begin).total_seconds()),
        )
    return format_duration((finish - begin).total_seconds())


def format_duration(seconds: float) -> str:
    """Format a duration like the page's script: 4 s, 1 m 05 s, 2 h 10 m, 3 d 4 h."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} m"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


@register.simple_tag
def copy(text: Any, label: str = "Copy") -> SafeString:
    """Draw a button that copies the text."""
    return format_html(
        '<button type="button" class="copy-button" data-copy="{}" aria-label="{}" title="{}">{}</button>',
        text,
        label,
        label,
        icon("copy"),
    )


@register.filter
@stringfilter
def last_part(arn: str) -> str:
    """Return the part of an ARN after its last slash, the resource name."""
    return arn.rsplit("/", 1)[-1]


@register.filter
@stringfilter
def lines(text: str) -> list[str]:
    """Return the lines of a text, for numbering them."""
    return text.splitlines()


@register.filter
@stringfilter
def code_spans(text: str) -> SafeString:
    """Render a plain text in which backticks mark code."""
    parts = enumerate(text.split("`"))
    # Every second part is code.
    return format_html_join(
        "", "{}", ((format_html("<code>{}</code>", part) if number % 2 else part,) for number, part in parts)
    )


@register.filter
def scalar(value: Any) -> Any:
    """Return the value of a variable as YAML and runs write it: true, where Python writes True."""
    return str(value).lower() if isinstance(value, bool) else value


@register.filter
@stringfilter
def depth(path: str) -> int:
    """Return the indentation of a path in a tree: its number of folders, up to a limit."""
    return min(path.count("/") - 1, DEEPEST_INDENT)


@register.simple_tag(takes_context=True)
def shared_from(context: Context, scope: Scope) -> SafeString | str:
    """Render the scope of a resource that a scope above shares with the chosen one."""
    chosen = getattr(context.get("request"), "current_scope", None)
    if chosen is None or not chosen.path.startswith(f"{scope.path}/"):
        return ""
    level = scope.get_kind_display()
    return format_html(
        ' <span class="shared" title="Shared with all scopes in {}">{}</span>', scope.path, level
    )
