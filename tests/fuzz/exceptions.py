"""What a check of schemathesis reports although it is right: each operation with its reason."""

from typing import Final

YAML: Final = "a YAML text is a language of its own: a pattern cannot say what may stand in it"

# Refused with 400 although the description allows it.
REFUSED_ALTHOUGH_DESCRIBED: Final[dict[str, str]] = {}


def is_expected(operation: str, failure: str, status: int) -> bool:
    """Whether `failure`, the name of its class, is how that operation has to answer."""
    # A tag that is not the current one is refused for what the thing is, not for what the tag looks like.
    if failure == "RejectedPositiveData" and status == 412:
        return True
    return failure == "RejectedPositiveData" and status == 400 and operation in REFUSED_ALTHOUGH_DESCRIBED
