"""ECR with paginated image lists."""

from functools import wraps
from typing import Any

from moto.core.responses import ActionResult
from moto.ecr.responses import ECRResponse

# AWS's default page size.
DEFAULT_PAGE_SIZE = 100


def install_ecr() -> None:
    """Make moto respect `maxResults` and `nextToken`; a repeated call changes nothing."""
    whole = getattr(ECRResponse.describe_images, "__wrapped__", ECRResponse.describe_images)

    @wraps(whole)
    def paged(self: Any) -> ActionResult:
        answer = whole(self).result
        if self._get_param("imageIds"):
            return ActionResult(answer)
        token = str(self._get_param("nextToken") or "")
        begin = int(token) if token.isdigit() else 0
        end = begin + int(self._get_param("maxResults") or DEFAULT_PAGE_SIZE)
        images = answer["imageDetails"]
        following = {"nextToken": str(end)} if len(images) > end else {}
        return ActionResult({"imageDetails": images[begin:end], **following})

    ECRResponse.describe_images = paged
