"""`slipway spec --output` writes files with a token: closed to others, and a refusal is a sentence."""

from pathlib import Path

import pytest

from connectors.models import Connector
from delegates.operations.installation import create_delegate
from rbac.models import Scope
from tests.cli.test_delegate_installs import ANSWERS
from tests.fixtures.command_line import CommandLine, sign_in
from tests.fixtures.delegates import make_token
from tests.fixtures.people import make_person

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def manager_line(tmp_path: Path, deployer_line: CommandLine) -> CommandLine:
    """The command line of a manager of the delegate `west`."""
    scope = Connector.objects.get(identifier="sandbox_aws").scope
    manager = make_person("manager", "account_admin", Scope.objects.account())
    token = make_token(scope, "west", "slp_dlt_0123of-the-files")
    create_delegate(actor=manager, scope=scope, name="west", answers=ANSWERS, token=token)
    return sign_in(tmp_path, deployer_line.variables["SLIPWAY_URL"], manager)


def test_a_file_that_others_could_read_is_closed_to_them(manager_line: CommandLine) -> None:
    folder = manager_line.home / "out"
    first = manager_line.run("spec", "west", "--output", "out")
    assert first.returncode == 0, first.stderr
    files = sorted(folder.iterdir())
    for file in files:
        file.chmod(0o644)
    again = manager_line.run("spec", "west", "--output", "out")
    assert again.returncode == 0, again.stderr
    assert files
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_folder_that_cannot_be_written_is_explained(manager_line: CommandLine) -> None:
    (manager_line.home / "out").write_text("a file")
    answer = manager_line.run("spec", "west", "--output", "out")
    assert answer.returncode == 1
    assert "out cannot be written" in answer.stderr
    assert "something went wrong in slipway itself" not in answer.stderr
