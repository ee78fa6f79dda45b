"""Git: pushes and tags of GitHub, GitLab, Bitbucket, or any repository with a hook."""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from guards.patterns import is_glob_match
from pipelines.triggers.base import (
    Check,
    HookRequest,
    Setting,
    SetupStep,
    TriggerEvent,
    TriggerKind,
    read_delivery_id,
    require_equal,
)
from pipelines.triggers.kinds import webhook
from pipelines.triggers.registry import register_kind
from web.http.problems import BadInput

PROVIDER, BRANCHES, TAGS, PATHS = "provider", "branches", "tags", "paths"
GITHUB, GITLAB, BITBUCKET, PLAIN = "github", "gitlab", "bitbucket", "plain"
_BRANCH, _TAG = "refs/heads/", "refs/tags/"
_LINE_CHARACTERS: Final = 200
# The hook of a Git server of one's own sends so many at most.
_MOST_PATHS: Final = 2000
# GitHub lists so many at most.
# https://docs.github.com/en/webhooks/webhook-events-and-payloads#push
_MOST_COMMITS: Final = 2048
_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Push:
    """What a provider says about a push of one branch or tag; all texts are a stranger's."""

    ref: str
    before: str
    after: str
    commit: str
    message: str
    author: str
    repository: str
    url: str = ""
    # When the provider took it, or its key of it, if it says so: the same commits may be pushed again.
    moment: str = ""

    @property
    def is_deletion(self) -> bool:
        # SHA-256 has 64 digits.
        return not self.after.strip("0")


@register_kind
class Git(TriggerKind):
    """One event for each branch and tag that was pushed, not for deletions."""

    identifier = "git"
    title = "Git push"
    description = "when a branch or a tag is pushed to GitHub, GitLab, Bitbucket or another repository"
    has_address = True
    settings = (
        Setting(
            PROVIDER,
            "Provider",
            choices=(
                (GITHUB, "GitHub"),
                (GITLAB, "GitLab"),
                (BITBUCKET, "Bitbucket"),
                (PLAIN, "Another, by a hook"),
            ),
            default=GITHUB,
        ),
        Setting(
            BRANCHES,
            "Branches",
            "One pattern in each line, such as main or release/*. Empty: no branch starts a run.",
            is_list=True,
        ),
        Setting(
            TAGS,
            "Tags",
            "One pattern in each line, such as v*. Empty: no tag starts a run.",
            is_list=True,
        ),
        Setting(
            PATHS,
            "Changed files",
            "One pattern in each line, such as services/shop/*. A push to a branch starts a run if one of "
            "its files matches, and one that takes commits off the branch always does. Empty: any file. "
            "Bitbucket does not send file names.",
            is_list=True,
        ),
    )
    values = {
        "event": "push or tag",
        "branch": "Branch, empty for a tag",
        "tag": "Tag, empty for a branch",
        "commit": "Commit, 40 digits",
        "short_commit": "First seven digits of the commit",
        "message": "First line of the commit message",
        "author": "Author",
        "repository": "Repository with its owner",
        "url": "Page of the push, if the provider names one",
    }
    sample_payload = json.dumps(
        {
            "ref": "refs/heads/main",
            "before": "1" * 40,
            "after": "2" * 40,
            "repository": {"full_name": "acme/shop"},
            "head_commit": {"id": "2" * 40, "message": "Fix the cart", "author": {"name": "Jane"}},
            "commits": [{"id": "2" * 40, "added": [], "removed": [], "modified": ["src/cart.py"]}],
        },
        indent=2,
    )

    def list_problems(self, spec: Mapping[str, Any]) -> list[dict[str, str]]:
        """Return the problems of the patterns."""
        if problems := super().list_problems(spec):
            return problems
        if not spec.get(BRANCHES) and not spec.get(TAGS):
            message = "Enter a pattern of branches, such as main, or one of tags."
            return [{"path": f"spec.{BRANCHES}", "message": message}]
        if spec.get(PATHS) and _get_provider(spec) == BITBUCKET:
            return [
                {"path": f"spec.{PATHS}", "message": "Bitbucket does not send the names of changed files."}
            ]
        return []

    def list_setup_steps(self, spec: Mapping[str, Any], address: str) -> list[SetupStep]:
        """Return the steps for the chosen provider."""
        return _SETUP[_get_provider(spec)](address)

    def authenticate(self, spec: Mapping[str, Any], secret: str, request: HookRequest) -> None:
        """Check the signature or the token as the provider sends it. Raises `RequestRefused`."""
        provider = _get_provider(spec)
        if provider == PLAIN:
            webhook.check_signature(secret, request)
        elif provider == GITLAB:
            require_equal(secret, request.headers.get("X-Gitlab-Token", ""))
        else:
            name = "X-Hub-Signature-256" if provider == GITHUB else "X-Hub-Signature"
            digest = hmac.new(secret.encode(), request.body, hashlib.sha256).hexdigest()
            require_equal(f"sha256={digest}", request.headers.get(name, ""))

    def read_events(
        self, spec: Mapping[str, Any], payload: Any, headers: Mapping[str, str]
    ) -> list[TriggerEvent]:
        """Return an event for each pushed branch and tag; none for other events of the provider."""
        provider = _get_provider(spec)
        header, names = _EVENTS[provider]
        if headers.get(header, names[0]) not in names:
            return []
        pushes = [push for push in _READERS[provider](payload) if not push.is_deletion]
        if provider == GITLAB:
            # Not signed, as all that GitLab sends; a resent request has the same.
            # https://gitlab.com/gitlab-org/gitlab/-/merge_requests/160952
            moment = read_delivery_id(headers, "Idempotency-Key")
            pushes = [replace(push, moment=moment) for push in pushes]
        delivery_id = read_delivery_id(headers, _DELIVERIES[provider])
        return [_build_event(push, payload, delivery_id, number) for number, push in enumerate(pushes)]

    def list_checks(self, spec: Mapping[str, Any], values: Mapping[str, Any], payload: Any) -> list[Check]:
        """Return the checks of branch or tag, and of the changed files."""
        kind, setting = ("Tag", TAGS) if values.get("event") == "tag" else ("Branch", BRANCHES)
        name = str(values.get("tag") or values.get("branch") or "")
        patterns = spec.get(setting) or []
        checks = [_check_name(kind, name, patterns)]
        if kind == "Branch" and spec.get(PATHS):
            checks.append(_check_paths(spec[PATHS], payload))
        return checks


def _get_provider(spec: Mapping[str, Any]) -> str:
    return str(spec.get(PROVIDER) or GITHUB)


def _check_name(kind: str, name: str, patterns: list[str]) -> Check:
    if not patterns:
        return Check(f"{kind} starts runs", f"The trigger has no pattern for it: {kind.lower()} {name}.")
    text = f"{kind} is {' or '.join(patterns)}"
    is_match = any(is_glob_match(pattern, name) for pattern in patterns)
    return Check(text, "" if is_match else f"It is {name}.")


def _check_paths(patterns: list[str], payload: Any) -> Check:
    text = f"A changed file is {' or '.join(patterns)}"
    paths, is_complete = _list_changed_paths(payload)
    if not is_complete or any(is_glob_match(pattern, path) for path in paths for pattern in patterns):
        return Check(text)
    return Check(text, f"None of {len(paths)} changed files is.")


def _list_changed_paths(payload: Any) -> tuple[set[str], bool]:
    """Return the changed files of all commits, and whether the provider sent all of them."""
    own_paths = _get_list(payload, "paths")
    commits = [commit for commit in _get_list(payload, "commits") if isinstance(commit, Mapping)]
    names = ("added", "removed", "modified")
    paths = {
        path
        for commit in [*commits, {"modified": own_paths}]
        for name in names
        for path in _get_list(commit, name)
        if isinstance(path, str)
    }
    count = payload.get("total_commits_count") if isinstance(payload, Mapping) else None
    has_all_commits = len(commits) < _MOST_COMMITS and (not isinstance(count, int) or count <= len(commits))
    return paths, has_all_commits and len(own_paths) < _MOST_PATHS and not _drops_commits(payload)


def _drops_commits(payload: Any) -> bool:
    """Whether commits may have left the branch: what they had changed is in no list, and changes back."""
    if not isinstance(payload, Mapping):
        return False
    # GitLab does not say so; a branch that moves without a new commit went back.
    before = _get_text(payload, "before")
    moves_back = payload.get("commits") == [] and before.strip("0") and before != _get_text(payload, "after")
    return payload.get("forced") is True or bool(moves_back)


def _build_event(push: Push, payload: Any, delivery_id: str, number: int) -> TriggerEvent:
    is_tag = push.ref.startswith(_TAG)
    name = push.ref.removeprefix(_TAG).removeprefix(_BRANCH)
    if not set(push.commit) <= _HEX or not 7 <= len(push.commit) <= 64:
        raise BadInput("The payload names no commit.")
    identity = json.dumps([push.repository, push.ref, push.before, push.after, push.moment])
    key = f"push:{hashlib.sha256(identity.encode()).hexdigest()}"
    short = push.commit[:7]
    by = f" by {push.author}" if push.author else ""
    return TriggerEvent(
        key=key,
        delivery_id=(f"{delivery_id}:{number}" if number else delivery_id) or key,
        summary=f"{'tag' if is_tag else 'push to'} {name}, {short}{by}",
        values={
            "event": "tag" if is_tag else "push",
            "branch": "" if is_tag else name,
            "tag": name if is_tag else "",
            "commit": push.commit,
            "short_commit": short,
            "message": push.message,
            "author": push.author,
            "repository": push.repository,
            "url": push.url,
        },
        payload=payload,
    )


def _read_github(payload: Any) -> Iterator[Push]:
    after = _get_text(payload, "after")
    yield Push(
        ref=_require_ref(payload),
        before=_get_text(payload, "before"),
        after=after,
        # A tag with a message is an object of its own; its commit is the head.
        commit=_get_text(payload, "head_commit.id") or after,
        message=_get_text(payload, "head_commit.message"),
        author=_get_text(payload, "head_commit.author.name") or _get_text(payload, "pusher.name"),
        repository=_get_text(payload, "repository.full_name"),
        url=_get_text(payload, "compare"),
        moment=_get_text(payload, "repository.pushed_at"),
    )


def _read_gitlab(payload: Any) -> Iterator[Push]:
    after = _get_text(payload, "after")
    commits = _get_list(payload, "commits")
    yield Push(
        ref=_require_ref(payload),
        before=_get_text(payload, "before"),
        after=after,
        commit=_get_text(payload, "checkout_sha") or after,
        message=_get_text(commits[-1], "message") if commits else _get_text(payload, "message"),
        author=_get_text(payload, "user_name"),
        repository=_get_text(payload, "project.path_with_namespace"),
        url=_get_text(payload, "project.web_url"),
    )


def _read_bitbucket(payload: Any) -> Iterator[Push]:
    for change in _get_list(payload.get("push"), "changes"):
        kind = _get_text(change, "new.type")
        if kind not in ("branch", "tag"):
            continue
        after = _get_text(change, "new.target.hash")
        yield Push(
            ref=f"{_TAG if kind == 'tag' else _BRANCH}{_get_text(change, 'new.name')}",
            before=_get_text(change, "old.target.hash"),
            after=after,
            commit=after,
            message=_get_text(change, "new.target.message"),
            author=_get_text(payload, "actor.display_name"),
            repository=_get_text(payload, "repository.full_name"),
            url=_get_text(change, "links.html.href"),
        )


def _read_plain(payload: Any) -> Iterator[Push]:
    after = _get_text(payload, "commit")
    yield Push(
        ref=_require_ref(payload),
        before=_get_text(payload, "before"),
        after=after,
        commit=after,
        message=_get_text(payload, "message"),
        author=_get_text(payload, "author"),
        repository=_get_text(payload, "repository"),
        moment=_get_text(payload, "pushed_at"),
    )


def _require_ref(payload: Any) -> str:
    ref = _get_text(payload, "ref")
    if not ref.startswith((_BRANCH, _TAG)):
        raise BadInput("The payload is no push: ref must begin with refs/heads/ or refs/tags/.")
    return ref


def _get_text(value: Any, path: str) -> str:
    """Return the first line of a text in a stranger's JSON, "" if there is none."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return text.strip().split("\n", 1)[0][:_LINE_CHARACTERS]


def _get_list(value: Any, name: str) -> list[Any]:
    items = value.get(name) if isinstance(value, Mapping) else None
    return items if isinstance(items, list) else []


_READERS: Final[Mapping[str, Callable[[Any], Iterator[Push]]]] = {
    GITHUB: _read_github,
    GITLAB: _read_gitlab,
    BITBUCKET: _read_bitbucket,
    PLAIN: _read_plain,
}
# The header with the kind of event, and the kinds that are pushes.
_EVENTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    GITHUB: ("X-GitHub-Event", ("push",)),
    GITLAB: ("X-Gitlab-Event", ("Push Hook", "Tag Push Hook")),
    BITBUCKET: ("X-Event-Key", ("repo:push",)),
    PLAIN: ("Slipway-Event", ("push",)),
}
_DELIVERIES: Final[Mapping[str, str]] = {
    GITHUB: "X-GitHub-Delivery",
    GITLAB: "X-Gitlab-Event-UUID",
    BITBUCKET: "X-Request-UUID",
    PLAIN: webhook.DELIVERY,
}


def _list_github_steps(address: str) -> list[SetupStep]:
    return [
        SetupStep(
            "GitHub",
            f"In the repository, open Settings, Webhooks, Add webhook. Payload URL: `{address}`. "
            "Content type: `application/json`. Secret: the secret that was shown here. Events: just the push "
            "event, which includes tags.",
        )
    ]


def _list_gitlab_steps(address: str) -> list[SetupStep]:
    return [
        SetupStep(
            "GitLab",
            f"In the project, open Settings, Webhooks, Add new webhook. URL: `{address}`. Secret token: the "
            "secret that was shown here. Trigger: Push events, and Tag push events for tags.",
        )
    ]


def _list_bitbucket_steps(address: str) -> list[SetupStep]:
    return [
        SetupStep(
            "Bitbucket",
            f"In the repository, open Repository settings, Webhooks, Add webhook. URL: `{address}`. "
            "Secret: the secret that was shown here. Triggers: Repository push.",
        )
    ]


def _list_plain_steps(address: str) -> list[SetupStep]:
    text = (
        "Install this as the hook `post-receive` of the repository on its server. It sends one signed "
        "request for each branch and tag; `paths` has the changed files."
    )
    command = _POST_RECEIVE.format(
        address=address,
        timestamp=webhook.TIMESTAMP,
        signature=webhook.SIGNATURE,
        most_paths=_MOST_PATHS,
    )
    return [SetupStep("A Git server of your own", text, command)]


_SETUP: Final[Mapping[str, Callable[[str], list[SetupStep]]]] = {
    GITHUB: _list_github_steps,
    GITLAB: _list_gitlab_steps,
    BITBUCKET: _list_bitbucket_steps,
    PLAIN: _list_plain_steps,
}
_POST_RECEIVE: Final = """\
while read BEFORE AFTER REF; do
  case "$AFTER" in *[!0]*) ;; *) continue ;; esac
  BODY=$(python3 - "$REF" "$BEFORE" "$(git rev-parse "$AFTER^{{commit}}")" <<'END'
import json, subprocess, sys, time
ref, before, commit = sys.argv[1:]
def git(*words):
    return subprocess.run(["git", *words], capture_output=True, text=True, errors="replace").stdout.strip()
list_files = ["diff", "--no-renames", before] if before.strip("0") else ["ls-tree", "-r"]
# Without -z, git quotes names such as café.
changed = git(list_files[0], "--name-only", "-z", *list_files[1:], commit).split("\\0")
paths = [path for path in changed if path][:{most_paths}]
print(json.dumps({{"ref": ref, "before": before, "commit": commit, "paths": paths,
  "pushed_at": int(time.time()),
  "author": git("log", "-1", "--format=%an", commit), "message": git("log", "-1", "--format=%s", commit)}}))
END
)
  TIME=$(date +%s)
  SIGNATURE=$(printf '%s.%s' "$TIME" "$BODY" | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d' ' -f1)
  curl --fail --silent --show-error --request POST '{address}' \\
    --header 'Content-Type: application/json' \\
    --header "{timestamp}: $TIME" \\
    --header "{signature}: v1=$SIGNATURE" \\
    --data-raw "$BODY"
done
"""
