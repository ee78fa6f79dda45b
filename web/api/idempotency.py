"""Idempotency keys: a repeated request that creates something gets the answer of the first one.

The row of a key is written in the transaction of the effect: both are kept, or neither. A concurrent request
with the same key waits for that transaction. A refused request keeps no row, so its key can be used again.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from datetime import timedelta
from functools import partial, wraps
from typing import Any, ClassVar, Final, cast

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, OperationalError, transaction
from django.http import Http404
from psycopg.errors import LockNotAvailable, QueryCanceled
from rest_framework.exceptions import APIException
from rest_framework.exceptions import PermissionDenied as ApiPermissionDenied
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from guards.limits import IDEMPOTENCY_HOURS, IDEMPOTENCY_KEY_CHARACTERS
from rbac.archive_guards import ScopeBusy
from rbac.encryption import DecryptionFailed
from rbac.models import User
from rbac.usage_counts import without_counting
from web.api.rate_limits import get_caller_key
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict, Problem
from web.models import IdempotentRequest

Handler = Callable[..., Response]
IDEMPOTENCY_HEADER: Final = "Idempotency-Key"
REPLAY_HEADER: Final = "Idempotency-Replayed"
MAX_AGE: Final = timedelta(hours=IDEMPOTENCY_HOURS)
_KEPT_HEADERS: Final = ("ETag", "Location")
_PATH_CHARACTERS: Final = 400
# Effects of the running handler that wait for the commit of a key's transaction; None without a key.
_effects: ContextVar[list[Callable[[], None]] | None] = ContextVar("effects", default=None)
_CREATING_CACHE: dict[type[APIView], bool] = {}


class IdempotencyKeyReused(Problem):
    """Error raised for a key that belongs to a request with another body."""

    status = 422
    code = "idempotency_key_reused"


class RequestInProgress(Conflict):
    """Error raised while the first request with a key has not ended."""

    code = "request_in_progress"
    wait: ClassVar[int] = 1


class AlreadyCreated(Conflict):
    """Error raised in place of an answer that has a secret, which is shown once."""

    code = "already_created"


def is_creating(statuses: Collection[str]) -> bool:
    """Return whether a POST with these documented statuses creates something.

    A POST that may also answer 200 looks something up.
    """
    return bool({"201", "202"} & set(statuses)) and "200" not in statuses


def parse_idempotency_key(request: Request) -> str:
    """Return the key of a request, or an empty text. Raises `BadInput`."""
    key = request.headers.get(IDEMPOTENCY_HEADER, "").strip()
    if len(key) > IDEMPOTENCY_KEY_CHARACTERS or not key.isascii() or (key and not key.isprintable()):
        raise BadInput(f"An Idempotency-Key has {IDEMPOTENCY_KEY_CHARACTERS} at most, printable ASCII.")
    return key


def takes_idempotency_key(view: APIView) -> bool:
    """Return whether the request of a view is a POST that creates something, as OpenAPI describes it.

    A route without authentication takes none: there is nobody whose key it is.
    """
    request = view.request
    if request.method != "POST" or not view.permission_classes or len(request.path) > _PATH_CHARACTERS:
        return False
    if type(view) not in _CREATING_CACHE:
        _CREATING_CACHE[type(view)] = _is_described_creating(view)
    return _CREATING_CACHE[type(view)]


def answer_once(handler: Handler, key: str, *, one_time_field: str = "") -> Handler:
    """Return a handler that runs at most once for a key.

    An answer with a `one_time_field` is not kept. An answer is repeated only to a caller who may still do
    what the request does. The returned handler raises `IdempotencyKeyReused`, `RequestInProgress` or
    `AlreadyCreated`.
    """

    @wraps(handler)
    def handle(request: Request, *args: Any, **kwargs: Any) -> Response:
        fingerprint, effects = _compute_fingerprint(request), list[Callable[[], None]]()
        token = _effects.set(effects)
        try:
            with transaction.atomic():
                row, is_first = _claim(request, key)
                if not is_first:
                    content = _load_content(row, fingerprint)
                    _require_access(partial(handler, request, *args, **kwargs))
                    return _replay(content)
                response = handler(request, *args, **kwargs)
                _keep(row, response, fingerprint, one_time_field)
        finally:
            _effects.reset(token)
        for effect in effects:
            effect()
        if effects:
            _keep(row, response, fingerprint, one_time_field)
        return response

    return handle


def run_after_commit(effect: Callable[[], None]) -> None:
    """Run an effect outside the database, such as a mail, once the rows of the handler are committed.

    The effect may change the data of the answer. Until it has, the answer must not claim it: that is what a
    crash in between leaves for repeated requests. A handler that runs again for its checks has no effects.
    """
    effects = _effects.get()
    if effects is None:
        effect()
    else:
        effects.append(effect)


def _is_described_creating(view: APIView) -> bool:
    described = getattr(getattr(view, "post", None), "kwargs", {}).get("schema")
    if described is None:
        return False
    schema = described()
    schema.view, schema.method = view, "POST"
    responses = schema.get_response_serializers()
    if not isinstance(responses, Mapping):
        return False
    return is_creating({str(status[0] if isinstance(status, tuple) else status) for status in responses})


def _compute_fingerprint(request: Request) -> str:
    """Return a digest of the query and the body; the order of keys does not matter."""
    content = json.dumps([request.META.get("QUERY_STRING", ""), request.data], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _claim(request: Request, key: str) -> tuple[IdempotentRequest, bool]:
    """Return the row of a key, and whether this request is its first one."""
    identity = {
        "caller": get_caller_key(request),
        "method": str(request.method),
        "path": request.path,
        "key": key,
    }
    rows = IdempotentRequest.objects.filter(**identity)
    rows.filter(created_at__lt=get_database_time() - MAX_AGE).delete()
    claim = IdempotentRequest(user=cast(User, request.user), **identity)
    try:
        # On PostgreSQL this waits for a transaction that has inserted the same key.
        IdempotentRequest.objects.bulk_create([claim], ignore_conflicts=True)
    except OperationalError as exc:
        if isinstance(exc.__cause__, LockNotAvailable | QueryCanceled):
            raise RequestInProgress(
                "The first request with this Idempotency-Key has not ended. Repeat this one later."
            ) from exc
        raise
    row = rows.get()
    return row, row.pk == claim.pk


def _keep(row: IdempotentRequest, response: Response, fingerprint: str, one_time_field: str) -> None:
    if response.status_code >= 300:
        row.delete()
        return
    content: dict[str, Any] = {"fingerprint": fingerprint, "status": response.status_code}
    if one_time_field:
        content["created_id"] = response.data.get("id", "")
    else:
        content["body"] = json.loads(JSONRenderer().render(response.data))
        content["headers"] = {name: response[name] for name in _KEPT_HEADERS if name in response}
    row.content = json.dumps(content)
    row.save(update_fields=["content"])


def _require_access(run_handler: Callable[[], Response]) -> None:
    """Run a handler again without its effects, for its checks: a caller may have lost a permission since.

    Raises the refusal of a caller who may not do or view it. Other refusals are those of a repetition, such
    as an identifier that is used by now.
    """
    try:
        with without_counting(), transaction.atomic():
            run_handler()
            transaction.set_rollback(True)
    except (PermissionDenied, ApiPermissionDenied, Http404):
        raise
    except (Problem, ScopeBusy, ValidationError, APIException, IntegrityError):
        pass


def _load_content(row: IdempotentRequest, fingerprint: str) -> dict[str, Any]:
    """Return the kept answer. Raises `AlreadyCreated` if unreadable, else `IdempotencyKeyReused`."""
    try:
        content: dict[str, Any] = json.loads(row.content)
    except DecryptionFailed as exc:
        raise AlreadyCreated("This Idempotency-Key was used, and its answer cannot be read.") from exc
    if content["fingerprint"] != fingerprint:
        raise IdempotencyKeyReused(
            "This Idempotency-Key was used for a request with another body. Use a new key."
        )
    return content


def _replay(content: Mapping[str, Any]) -> Response:
    if "created_id" in content:
        name = str(content["created_id"])
        raise AlreadyCreated(
            f"Already created with this Idempotency-Key{f', id {name}' if name else ''}. "
            "Its secret was shown once.",
            errors=[{"path": "id", "message": name}] if name else (),
        )
    headers = {**content["headers"], REPLAY_HEADER: "true"}
    return Response(content["body"], status=content["status"], headers=headers)
