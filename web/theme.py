"""Light, dark or as the system says: kept in a cookie, so that the server draws the first pixel right."""

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

COOKIE = "slipway_theme"
THEMES = ("light", "dark")
YEAR = 365 * 24 * 3600


def chosen_theme(request: HttpRequest) -> str:
    """This will give "light", "dark", or "" for what the system says."""
    theme = request.COOKIES.get(COOKIE, "")
    return theme if theme in THEMES else ""


@require_POST
def choose_theme(request: HttpRequest) -> HttpResponse:
    """This will keep the theme and lead back to the page that asked."""
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, {request.get_host()}, request.is_secure()):
        back = "/"
    response = HttpResponseRedirect(back)
    theme = request.POST.get("theme", "")
    if theme in THEMES:
        response.set_cookie(
            COOKIE, theme, max_age=YEAR, samesite="Lax", httponly=True, secure=request.is_secure()
        )
    else:
        response.delete_cookie(COOKIE)
    return response
