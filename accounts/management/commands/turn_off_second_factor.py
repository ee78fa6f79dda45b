"""`manage.py turn_off_second_factor NAME`: for who lost the phone and the recovery codes."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.people.two_factor import has_two_factor, turn_off
from rbac.models import User


class Command(BaseCommand):
    """Let a person sign in with the password alone again."""

    help = (
        "Takes the authenticator app and the recovery codes of a user away. Make sure first who asks for it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        person = User.objects.filter(username=options["username"]).first()
        if person is None:
            raise CommandError(f"There is no user {options['username']}.")
        if not has_two_factor(person):
            raise CommandError(f"{person} has no second factor.")
        turn_off(actor=None, person=person)
        self.stdout.write(f"{person} signs in without a code from now on.")
