"""Image push: Docker Hub, registries with notifications (OCI distribution), and Amazon ECR by EventBridge.

Registries and ECR are also polled, and EventBridge's events read from a queue, through a connector.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from aws.apis.sqs import QUEUE_URL
from connectors.models import Connector
from connectors.queries import find_connector
from connectors.required_access import find_missing_permissions, get_connector_requirements
from guards.limits import TRIGGER_REPOSITORIES
from guards.patterns import is_glob_match
from pipelines.models import Pipeline, TriggerWatch
from pipelines.triggers.base import (
    Check,
    HookRequest,
    Setting,
    SetupStep,
    TriggerEvent,
    TriggerKind,
    WatchSource,
    require_equal,
)
from pipelines.triggers.registry import register_kind
from rbac.models import User
from web.http.problems import BadInput

IMAGES, TAGS = "images", "tags"
CONNECTOR, REGION, POLL, QUEUE = "connector", "region", "poll", "queue"
NEVER: Final = "never"
QUEUE_INTERVAL_SECONDS: Final = 20
CONNECTOR_KINDS: Final = (Connector.Kind.AWS, Connector.Kind.DOCKER_REGISTRY)
TOKEN_HEADER: Final = "X-Slipway-Token"  # noqa: S105 - the name of a header
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REPOSITORY = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")
_MOST_CHARACTERS: Final = 255
_SHOWN_DIGITS: Final = 12
_REGION_NAME = re.compile(r"[a-z]{2,4}(-[a-z]+){1,2}-\d{1,2}", re.ASCII)


@register_kind
class ImagePush(TriggerKind):
    """One event for each pushed tag. The same digest under the same tag is the same event.

    Registries do not sign what they send: they prove themselves by a token.
    """

    identifier = "image"
    title = "Image push"
    description = "when an image is pushed to Docker Hub, Amazon ECR or another registry"
    has_address = True
    settings = (
        Setting(
            IMAGES,
            "Images",
            "Repositories without the name of the registry, one pattern in each line, such as acme/shop.",
            is_required=True,
            is_list=True,
        ),
        Setting(
            TAGS,
            "Tags",
            "One pattern in each line, such as v*. Empty: any tag.",
            is_list=True,
        ),
        Setting(
            POLL,
            "Poll the repository",
            "Where the registry sends no events. The first poll starts no run.",
            choices=(
                (NEVER, "Never"),
                ("1", "Every minute"),
                ("5", "Every 5 minutes"),
                ("15", "Every 15 minutes"),
                ("60", "Every hour"),
            ),
            default=NEVER,
        ),
        Setting(
            CONNECTOR,
            "Connector",
            "For polls and queues: to AWS or a registry, such as org.ecr. The service account needs access.",
        ),
        Setting(REGION, "Region", "Of Amazon ECR. Empty: the test region of the connector."),
        Setting(
            QUEUE,
            "SQS queue",
            "URL of a queue to which EventBridge sends the pushes to Amazon ECR, read through the connector. "
            "Needs no public address.",
        ),
    )
    values = {
        "repository": "Repository without the name of the registry",
        "tag": "Pushed tag",
        "digest": "Digest of the image, empty for Docker Hub",
    }
    sample_payload = json.dumps(
        {
            "events": [
                {
                    "id": "1",
                    "action": "push",
                    "target": {"repository": "acme/shop", "tag": "v1.2.3", "digest": f"sha256:{'0' * 64}"},
                }
            ]
        },
        indent=2,
    )

    def list_problems(self, spec: Mapping[str, Any]) -> list[dict[str, str]]:
        """Return the problems of settings; repositories are polled by their names."""
        return super().list_problems(spec) or list(_list_poll_problems(spec))

    def list_reference_problems(
        self, spec: Mapping[str, Any], pipeline: Pipeline, actor: User
    ) -> Iterator[dict[str, str]]:
        """Yield why the connector cannot be used."""
        if not (reference := spec.get(CONNECTOR)):
            return
        kinds = (Connector.Kind.AWS,) if spec.get(QUEUE) else CONNECTOR_KINDS
        connector = find_connector(pipeline.scope, reference, *kinds)
        if connector is None:
            names = " or ".join(kind.label for kind in kinds)
            message = f"there is no connector {reference} to {names} for {pipeline.scope}"
            yield {"path": f"spec.{CONNECTOR}", "message": message}
            return
        for missing in find_missing_permissions(actor, get_connector_requirements(connector)):
            yield {"path": f"spec.{CONNECTOR}", "message": missing.message}

    def list_watch_sources(self, spec: Mapping[str, Any]) -> list[WatchSource]:
        """Return the repositories to poll, and the queue to read."""
        sources = []
        if _polls(spec):
            settings = {name: spec.get(name) for name in (CONNECTOR, REGION, TAGS)}
            interval = int(spec[POLL]) * 60
            sources = [
                WatchSource(TriggerWatch.Kind.REPOSITORY, image, settings, interval) for image in spec[IMAGES]
            ]
        if spec.get(QUEUE):
            settings = {CONNECTOR: spec[CONNECTOR]}
            sources.append(
                WatchSource(TriggerWatch.Kind.QUEUE, spec[QUEUE], settings, QUEUE_INTERVAL_SECONDS)
            )
        return sources

    def find_watched_subject(self, spec: Mapping[str, Any], event: TriggerEvent) -> str:
        """Return the polled repository of a push without a digest: the poll finds the digest."""
        repository = str(event.values["repository"])
        is_polled = _polls(spec) and repository in spec[IMAGES]
        return repository if is_polled and not event.values["digest"] else ""

    def list_setup_steps(self, spec: Mapping[str, Any], address: str) -> list[SetupStep]:
        """Return the steps for each registry."""
        return [
            SetupStep(
                "Docker Hub",
                f"In the repository, open Webhooks. Webhook URL: `{address}?token=` followed by the secret: "
                "Docker Hub cannot send it in another way. Rotate it if logs of a proxy may have kept it.",
            ),
            SetupStep(
                "A registry with notifications, such as distribution or Harbor",
                f"Add an endpoint with the URL `{address}`, and the header `Authorization: Bearer` followed "
                "by the secret.",
            ),
            SetupStep(
                "Amazon ECR, by a queue",
                "In EventBridge, create a rule with the pattern below that sends to an SQS queue. Enter the "
                "URL of the queue in this trigger, with a connector that may receive and delete messages.",
            ),
            SetupStep(
                "Amazon ECR",
                "In EventBridge, create a connection with an API key: name "
                f"`{TOKEN_HEADER}`, value the secret. Create an API destination with the URL `{address}` and "
                "the method POST, and a rule with this pattern that sends to it.",
                _RULE,
            ),
        ]

    def authenticate(self, spec: Mapping[str, Any], secret: str, request: HookRequest) -> None:
        """Check the token in a header or the address. Raises `RequestRefused`."""
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        require_equal(secret, request.headers.get(TOKEN_HEADER, "") or bearer or request.token)

    def read_events(
        self, spec: Mapping[str, Any], payload: Any, headers: Mapping[str, str]
    ) -> list[TriggerEvent]:
        """Return an event for each pushed tag; none for pulls, deletions and layers."""
        if isinstance(payload.get("events"), list):
            return list(_read_notifications(payload))
        if isinstance(payload.get("push_data"), Mapping):
            return [_read_docker_hub(payload)]
        if payload.get("source") == "aws.ecr":
            return list(_read_ecr(payload))
        raise BadInput(
            "The payload is none of Docker Hub (push_data), of a registry's notifications (events) or of "
            "Amazon ECR (source aws.ecr)."
        )

    def list_checks(self, spec: Mapping[str, Any], values: Mapping[str, Any], payload: Any) -> list[Check]:
        """Return the checks of repository and tag."""
        return [
            _check_pattern("Image", str(values.get("repository")), spec.get(IMAGES) or []),
            _check_pattern("Tag", str(values.get("tag")), spec.get(TAGS) or ["*"]),
        ]


def build_found_event(repository: str, tag: str, digest: str) -> TriggerEvent:
    """Return the event of a push that a poll found, which is the same as that of a request."""
    image = {"tag": tag, "digest": digest}
    return _build_event(image, None, repository, payload={"repository": repository, **image})


def matches_tags(tag: str, patterns: Sequence[str]) -> bool:
    """Return whether a tag meets one of the patterns; all do without patterns."""
    return not patterns or any(is_glob_match(pattern, tag) for pattern in patterns)


def _polls(spec: Mapping[str, Any]) -> bool:
    return spec.get(POLL, NEVER) != NEVER


def _list_poll_problems(spec: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    if spec.get(REGION) and not _REGION_NAME.fullmatch(spec[REGION]):
        message = "is not the name of a region, such as eu-central-1"
        yield {"path": f"spec.{REGION}", "message": message}
    if spec.get(QUEUE) and not QUEUE_URL.match(spec[QUEUE]):
        message = (
            "is not the URL of a queue, such as https://sqs.eu-central-1.amazonaws.com/123456789012/pushes"
        )
        yield {"path": f"spec.{QUEUE}", "message": message}
    if (_polls(spec) or spec.get(QUEUE)) and not spec.get(CONNECTOR):
        yield {"path": f"spec.{CONNECTOR}", "message": "choose the connector to read through"}
    if not _polls(spec):
        return
    images = spec[IMAGES]
    if pattern := next((image for image in images if not _REPOSITORY.fullmatch(image)), ""):
        message = f"{pattern} is not the name of a repository; patterns cannot be polled"
        yield {"path": f"spec.{IMAGES}", "message": message}
    if len(images) > TRIGGER_REPOSITORIES or len(set(images)) < len(images):
        message = f"name at most {TRIGGER_REPOSITORIES} to poll, each once"
        yield {"path": f"spec.{IMAGES}", "message": message}


def _check_pattern(noun: str, text: str, patterns: list[str]) -> Check:
    is_match = any(is_glob_match(pattern, text) for pattern in patterns)
    return Check(f"{noun} is {' or '.join(patterns)}", "" if is_match else f"It is {text}.")


def _read_notifications(payload: Any) -> Iterator[TriggerEvent]:
    for entry in payload["events"]:
        target = entry.get("target") if isinstance(entry, Mapping) else None
        # Layers and images without a tag have none.
        if not isinstance(target, Mapping) or entry.get("action") != "push" or not target.get("tag"):
            continue
        yield _build_event(target, entry.get("id"), target.get("repository"), payload={"events": [entry]})


def _read_docker_hub(payload: Any) -> TriggerEvent:
    push, repository = payload["push_data"], payload.get("repository")
    name = repository.get("repo_name") if isinstance(repository, Mapping) else None
    return _build_event(push, None, name, payload=payload, moment=push.get("pushed_at"))


def _read_ecr(payload: Any) -> Iterator[TriggerEvent]:
    detail = payload.get("detail")
    if not isinstance(detail, Mapping):
        raise BadInput("The event of Amazon ECR has no detail.")
    if (detail.get("action-type"), detail.get("result")) != ("PUSH", "SUCCESS") or not detail.get(
        "image-tag"
    ):
        return
    image = {"tag": detail["image-tag"], "digest": detail.get("image-digest")}
    yield _build_event(image, payload.get("id"), detail.get("repository-name"), payload=payload)


def _build_event(
    image: Mapping[str, Any], event_id: Any, repository: Any, *, payload: Any, moment: Any = None
) -> TriggerEvent:
    tag, digest = image.get("tag"), image.get("digest") or ""
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):
        raise BadInput("The payload names no image tag.")
    is_name = isinstance(repository, str) and len(repository) <= _MOST_CHARACTERS
    if not is_name or not _REPOSITORY.fullmatch(repository):
        raise BadInput("The payload names no repository.")
    if digest and not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
        raise BadInput("The digest must be sha256: and 64 digits.")
    version = digest or _format_moment(moment)
    key = f"image:{hashlib.sha256(f'{repository}:{tag}@{version}'.encode()).hexdigest()}"
    digits = digest.removeprefix("sha256:")[:_SHOWN_DIGITS]
    return TriggerEvent(
        key=key,
        delivery_id=event_id[:100] if isinstance(event_id, str) and event_id else key,
        summary=f"image {repository}:{tag}{f' ({digits})' if digits else ''}",
        values={"repository": repository, "tag": tag, "digest": digest},
        payload=payload,
    )


def _format_moment(moment: Any) -> str:
    """Return when Docker Hub took the image, which has no digest in its requests."""
    if isinstance(moment, int) and not isinstance(moment, bool) and 0 < moment < 10**11:
        return datetime.fromtimestamp(moment, UTC).isoformat()
    raise BadInput("The payload has no digest and does not say when the image was pushed.")


_RULE: Final = json.dumps(
    {
        "source": ["aws.ecr"],
        "detail-type": ["ECR Image Action"],
        "detail": {"action-type": ["PUSH"], "result": ["SUCCESS"]},
    },
    indent=2,
)
