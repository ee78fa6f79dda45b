"""Pages of delegates: the list, kept up to date by its socket."""

from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from delegates.connectivity import Connectivity
from delegates.queries import delegates as queries
from rbac.policy import can_anywhere
from web.pages import PageRequest, page
from web.paging import keyset
from web.statuses import LOOKS

EDIT: Final = "core_delegate_edit"
LONGEST_SEARCH: Final = 128


@page
@require_safe
def delegates(request: PageRequest) -> HttpResponse:
    """This will list the delegates of the chosen scope, of those below it, and those above that serve it."""
    now = timezone.now()
    status = request.GET.get("status", "").upper()
    status = status if status in list(Connectivity) else ""
    text, tag = (request.GET.get(name, "")[:LONGEST_SEARCH].strip() for name in ("q", "tag"))
    found = queries.usable_or_below(request.user, request.current_scope)
    if text:
        found = found.filter(name__icontains=text)
    if tag:
        found = queries.with_tag(found, tag, now)
    if status:
        found = queries.with_status(found, status, now)
    shown = keyset(queries.with_instances(found), request, order="name", oldest_first=True)
    content = {
        "page": shown,
        "delegates": queries.facts_of(shown.items, now),
        "statuses": [(one.value, LOOKS[one.value].word) for one in Connectivity],
        "chosen": status,
        "text": text,
        "tag": tag,
        "filtered": bool(status or text or tag),
        "can_add": can_anywhere(request.user, EDIT),
    }
    return render(request, "delegates/delegates.html", content)
