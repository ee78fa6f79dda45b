"""Values that were entered in the form of a resource that somebody has deleted meanwhile."""

import re
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final, NamedTuple

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from rbac.policy import NotVisible

# Names of fields that are no input.
_OMITTED: Final = re.compile(
    r"csrfmiddlewaretoken|create_for|version|.*-(?:TOTAL|INITIAL|MIN_NUM|MAX_NUM)_FORMS|.*-(?:DELETE|ORDER|id)"
)
_ROW: Final = re.compile(r"(\w+)-(\d+)-(.+)")


class EnteredValue(NamedTuple):
    """A value with the name of its field."""

    label: str
    text: str

    @property
    def rows(self) -> int:
        """Return the lines of a field that shows it."""
        return min(len(self.text.splitlines()), 20)


def show_lost_input(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Have a page without secrets show what was posted for a resource that is gone."""

    @wraps(view)
    def serve(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except NotVisible:
            if request.method != "POST":
                raise
            return render(request, "404.html", {"entered": list(_list_entered(request))}, status=404)

    return serve


def _list_entered(request: HttpRequest) -> Iterator[EnteredValue]:
    for name, values in request.POST.lists():
        text = ", ".join(str(value) for value in values if value)
        if text and not _OMITTED.fullmatch(name):
            yield EnteredValue(_format_name(name), text)


def _format_name(name: str) -> str:
    """Return the name of a field as a label; rows of a table are counted from 1."""
    if row := _ROW.fullmatch(name):
        return f"{_format_name(row[1])} {int(row[2]) + 1}: {row[3].replace('_', ' ')}"
    return name.replace("_", " ").capitalize()
