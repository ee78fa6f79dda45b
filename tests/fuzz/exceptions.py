"""What a check of schemathesis reports although it is right: each operation with its reason."""

import re
from typing import Final

YAML: Final = "a YAML text is a language of its own: a pattern cannot say what may stand in it"
VARIABLES: Final = "OpenAPI has no words for the names of variables, nor for what depends on other fields"
PATH: Final = "each part of a path has rules, which the address cannot say"
NAMED: Final = "what the body names may not be there, and the answer says where it stands"
GONE: Final = "the pipeline is as it was saved, and what it names may be gone"
QUESTION: Final = "a type and an identifier are given together, and which actions there are the type decides"
TAKEN: Final = "somebody may have that name already"
REGION: Final = "which regions there are AWS decides"
IMAGE: Final = "which images there are the registry decides, and whether there are any the connector"
MOMENT: Final = "a pattern does not know the calendar, nor the time zones"
SPEC: Final = "what may stand in the settings depends on the other ones"
TAGS: Final = "a pattern has no word for the characters that cannot be displayed"
INPUTS: Final = "which inputs there are the pipeline decides"
ADDRESS: Final = "which addresses may be asked the installation decides"
CONDITION: Final = "a condition is a language of its own, whose names the subject decides"
CODE: Final = "which codes were given out, and are not used yet, the description does not know"
FILES: Final = "the files decide which names an import needs"
DEPLOYED: Final = "which delegates Slipway has deployed or can deploy, and where, only its records know"
STAGE: Final = "which stages deploy a service the pipeline decides"
LEFT: Final = "what may be deleted is named after the ECS service"

# Refused with 400 although the description allows it.
REFUSED_ALTHOUGH_DESCRIBED: Final[dict[str, str]] = {
    "DELETE /api/v1/files/{path}": PATH,
    "GET /api/v1/files/{path}": PATH,
    "GET /api/v1/access-check": QUESTION,
    "GET /api/v1/access-holders": QUESTION,
    "GET /api/v1/audit": MOMENT,
    "GET /api/v1/audit/export": MOMENT,
    "GET /api/v1/connectors/{id}/clusters": REGION,
    "GET /api/v1/connectors/{id}/listeners": REGION,
    "GET /api/v1/connectors/{id}/load-balancers": REGION,
    "GET /api/v1/connectors/{id}/registries/repositories": REGION,
    "GET /api/v1/connectors/{id}/registries/tags": IMAGE,
    "GET /api/v1/connectors/{id}/rules": REGION,
    "GET /api/v1/executions/{id}/log/search": "several levels are given in one text",
    "GET /api/v1/pipelines/{id}/strategy": STAGE,
    "GET /api/v1/role-assignments": "a principal has a type and an id, given together",
    "PATCH /api/v1/connectors/{id}": SPEC,
    "PATCH /api/v1/delegate-configurations/{id}": NAMED,
    "PATCH /api/v1/delegates/{id}": NAMED,
    "PATCH /api/v1/delegates/{id}/setup": SPEC,
    "PATCH /api/v1/user-groups/{id}": NAMED,
    "POST /api/v1/acceptance-runs": NAMED,
    "POST /api/v1/acceptance-runs/plan": NAMED,
    "POST /api/v1/access-check": NAMED,
    "POST /api/v1/adoptions/{id}/adopt": NAMED,
    "POST /api/v1/api-keys": TAKEN,
    "POST /api/v1/connectors": SPEC,
    "POST /api/v1/connectors/{id}/test": REGION,
    "POST /api/v1/delegate-configurations": NAMED,
    "POST /api/v1/delegate-configurations/{id}/apply": NAMED,
    "POST /api/v1/delegate-tokens": "it expires in the future",
    "POST /api/v1/delegates": NAMED,
    "POST /api/v1/delegates/task-spec": SPEC,
    "POST /api/v1/delegates/task-spec/check": REGION,
    "POST /api/v1/delegates/{id}/check": ADDRESS,
    "POST /api/v1/delegates/{id}/deployment-plan": DEPLOYED,
    "POST /api/v1/delegates/{id}/deployments": DEPLOYED,
    "POST /api/v1/delegates/{id}/removal-plan": DEPLOYED,
    "POST /api/v1/delegates/{id}/removals": DEPLOYED,
    "POST /api/v1/delegates/{id}/task-spec": SPEC,
    "POST /api/v1/drift/{id}/accept": NAMED,
    "POST /api/v1/drift/{id}/withdraw": NAMED,
    "POST /api/v1/environments": VARIABLES,
    "POST /api/v1/environments/{id}/infrastructures": NAMED,
    "POST /api/v1/executions/{id}/attempts": "a whole attempt begins at no stage",
    "POST /api/v1/executions/{id}/decisions": NAMED,
    "POST /api/v1/executions/{id}/leftovers": LEFT,
    "POST /api/v1/executions/{id}/rollback": GONE,
    "POST /api/v1/file-checks": PATH,
    "POST /api/v1/file-clean-ups": "which texts are manifests their keys decide",
    "POST /api/v1/file-nodes/{id}/move": PATH,
    "POST /api/v1/files": PATH,
    "POST /api/v1/freeze-windows": MOMENT,
    "POST /api/v1/git-syncs": NAMED,
    "POST /api/v1/infrastructures/{id}/adoptions": NAMED,
    "POST /api/v1/imports": FILES,
    "POST /api/v1/imports/preview": FILES,
    "POST /api/v1/input-sets": INPUTS,
    "POST /api/v1/invitations": "what is an e-mail address is read more strictly than by the format",
    "POST /api/v1/notification-rules": ADDRESS,
    "POST /api/v1/orgs": TAKEN,
    "POST /api/v1/orgs/{org}/projects": TAKEN,
    "POST /api/v1/pipelines": YAML,
    "POST /api/v1/pipelines/checks": YAML,
    "POST /api/v1/pipelines/{id}/executions": GONE,
    "POST /api/v1/pipelines/{id}/preview": GONE,
    "POST /api/v1/pipelines/{id}/rehearsal": GONE,
    "POST /api/v1/pipelines/{id}/strategy": STAGE,
    "POST /api/v1/pipelines/{id}/strategy/preview": STAGE,
    "POST /api/v1/pipelines/{id}/versions/{number}/restore": GONE,
    "POST /api/v1/policy-rules": CONDITION,
    "POST /api/v1/policy-rules/evaluate": CONDITION,
    "POST /api/v1/projects": TAKEN,
    "POST /api/v1/resource-groups": TAKEN,
    "POST /api/v1/role-assignments": NAMED,
    "POST /api/v1/roles": TAKEN,
    "POST /api/v1/secrets": "either a value is given or a reference",
    "POST /api/v1/service-accounts": TAKEN,
    "POST /api/v1/services": VARIABLES,
    "POST /api/v1/services/{id}/deployments/{deployment}/return": GONE,
    "POST /api/v1/triggers": NAMED,
    "POST /api/v1/trigger-firings/{id}/redeliver": GONE,
    "POST /api/v1/user-groups": TAKEN,
    "PUT /api/v1/delegates/{id}/tags": TAGS,
    "PUT /api/v1/delegates/{id}/upgrade-window": MOMENT,
    "PUT /api/v1/environments/{id}": VARIABLES,
    "PUT /api/v1/environments/{id}/infrastructures/{infrastructure}": NAMED,
    "PUT /api/v1/environments/{id}/infrastructures/{infrastructure}/overrides/{service}": VARIABLES,
    "PUT /api/v1/environments/{id}/overrides/{service}": VARIABLES,
    "PUT /api/v1/files/{path}": PATH,
    "PUT /api/v1/freeze-windows/{id}": MOMENT,
    "PUT /api/v1/git-syncs/{id}": NAMED,
    "PUT /api/v1/input-sets/{id}": INPUTS,
    "PUT /api/v1/notification-rules/{id}": ADDRESS,
    "PUT /api/v1/pipelines/{id}": YAML,
    "PUT /api/v1/policy-rules/{id}": CONDITION,
    "PUT /api/v1/roles/{id}": NAMED,
    "PUT /api/v1/services/{id}": VARIABLES,
    "PUT /api/v1/triggers/{id}": NAMED,
    "PATCH /api/v1/secrets/{id}": NAMED,
    "POST /api/v1/command-line-sign-ins": CODE,
}


# Where the pattern of names says nothing: regular expressions of JSON Schema are not agreed on there.
_BEYOND: Final = re.compile("[\U00010000-\U0010ffff]")


def is_expected(operation: str, failure: str, status: int, *, query: dict[str, object], body: object) -> bool:
    """Return whether an operation may answer with `failure`, a class name."""
    if failure == "AcceptedNegativeData":
        # Before anybody reads what is wrong with a body, it is refused for its size, or for a version that is
        # not the current one.
        if status in (412, 413):
            return True
        # What is empty after its = counts as left out, as a form sends it. Of what is given several times, as
        # lists and the names of objects are, the last counts, which may be a number.
        return any(_get_last(value) == "" or _is_number_given_last(value) for value in query.values())
    if failure != "RejectedPositiveData":
        return False
    # A tag that is not the current one, and an idempotency key that another request has used, are refused for
    # what the thing is, not for what they look like.
    if status in (412, 422):
        return True
    # No text may have a NUL, wherever it stands: that is said once, and not of each parameter.
    return status == 400 and (
        _has_nul(query)
        or _has_nul(body)
        or operation in REFUSED_ALTHOUGH_DESCRIBED
        or _BEYOND.search(repr(body)) is not None
    )


def _get_last(value: object) -> object:
    """Return what counts of a value in the query: an empty text if nothing is sent."""
    return [*value, ""][len(value) - 1] if isinstance(value, list | dict) else value


def _is_number_given_last(value: object) -> bool:
    """Return whether a value is sent several times, at last as a number."""
    return isinstance(value, list | dict) and len(value) > 1 and str(_get_last(value)).isdecimal()


def _has_nul(part: object) -> bool:
    """Return whether a text in `part` has a NUL, at any depth."""
    if isinstance(part, dict):
        return any(_has_nul(name) or _has_nul(value) for name, value in part.items())
    if isinstance(part, list):
        return any(_has_nul(inner) for inner in part)
    return isinstance(part, str) and "\0" in part
