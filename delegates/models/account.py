"""The account id: what an installation is called by the agents that register with it (R023)."""

import secrets

from django.db import models

BYTES = 16


def new_account_id() -> str:
    """22 URL-safe characters, the first a letter or digit so that no command takes it for an option."""
    while (made := secrets.token_urlsafe(BYTES))[0] in "-_":
        pass
    return made


class AccountId(models.Model):
    """The one account id of this installation; made once and never changed."""

    account_id = models.CharField(max_length=32, unique=True, default=new_account_id, editable=False)

    def __str__(self) -> str:
        return self.account_id


def account_id() -> str:
    """This installation's account id."""
    row, _ = AccountId.objects.get_or_create(pk=1)
    return row.account_id
