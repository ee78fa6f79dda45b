"""Address of triggers for other programs: no session, no cookie, no form."""

import uuid

from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from pipelines.triggers.base import HookRequest
from pipelines.triggers.receiving import receive_request


@csrf_exempt
@require_POST
def receive_hook(request: HttpRequest, key: uuid.UUID) -> JsonResponse:
    """Write the events of a request, and answer 202 before anything is started."""
    address = str(request.META.get("REMOTE_ADDR", ""))
    received = HookRequest(request.headers, request.body, timezone.now(), request.GET.get("token", ""))
    receipt = receive_request(key, address, received)
    firings = [str(firing.pk) for firing in receipt.firings]
    return JsonResponse({"firings": firings, "duplicates": receipt.duplicates}, status=202)
