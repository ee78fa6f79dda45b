"""The page that says how to install delegates, for who reads before doing."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from web.pages import PageRequest, page


@page
@require_safe
def help_with_delegates(request: PageRequest) -> HttpResponse:
    """This will show what there is to know about installing delegates."""
    return render(request, "delegates/help/help.html")
