"""What a new password ends: connections that were opened while the old one counted."""

from rbac.changes import access_changed
from rbac.models import User


class NewPasswordIsTold:
    """Entered among the validators, for those are called wherever a password is set; it refuses none."""

    def validate(self, password: str, user: User | None = None) -> None:
        """Take any password."""

    def password_changed(self, password: str, user: User | None = None) -> None:
        """Have the open connections of the user checked again: their sessions end with the old password."""
        if user is not None:
            access_changed(user.pk)

    def get_help_text(self) -> str:
        """Say nothing: there is nothing to keep to."""
        return ""
