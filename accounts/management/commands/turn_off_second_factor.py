"""Command that turns off the second factor of a user who lost it."""

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from accounts.authentication.two_factor import disable_two_factor, has_two_factor
from rbac.models import User


class Command(BaseCommand):
    """Turn off two-factor authentication of a user."""

    help = "Turn off two-factor authentication for a user. Verify the identity of the person first."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        person = User.objects.filter(username=options["username"]).first()
        if person is None:
            raise CommandError(f"User {options['username']} does not exist.")
        if not has_two_factor(person):
            raise CommandError(f"{person} has no two-factor authentication.")
        try:
            disable_two_factor(actor=None, person=person)
        except ValidationError as refusal:
            raise CommandError(refusal.messages[0]) from refusal
        self.stdout.write(f"{person} can now sign in without a code.")
