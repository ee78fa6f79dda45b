"""Template tag of the last runs of a pipeline."""

from collections.abc import Iterable
from typing import Final

from django import template
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from deployments.models import Execution
from web.statuses import get_status_badge
from web.templatetags.slipway import mark

register: Final = template.Library()


@register.simple_tag
def run_strip(runs: Iterable[Execution]) -> SafeString:
    """Render the status of each run as a link to it.

    A list of pipelines has 250 of these links, and a template takes twice as long for them.
    """
    items = format_html_join("", '<li><a href="{}" aria-label="{}" title="{}">{}</a></li>', map(_link, runs))
    return format_html('<ol class="run-strip">{}</ol>', items)


def _link(run: Execution) -> tuple[str, str, str, SafeString]:
    attempt = f", attempt {run.attempt}" if run.attempt > 1 else ""
    name = f"#{run.number}{attempt}: {get_status_badge(run.status).word}"
    return reverse("execution", args=[run.pk]), name, name, mark(run.status)
