"""The tables of access, the built-in roles, and triggers that keep the audit trail append-only."""

import django.contrib.auth.validators
import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.apps.registry import Apps
from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

import rbac.models.roles
import rbac.models.users
from rbac.models.audit_entries import list_create_triggers, list_drop_triggers
from rbac.permissions import ensure_builtin_roles


def fill_in(apps: Apps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Make the account's scope and the built-in roles."""
    ensure_builtin_roles(apps)


def add_triggers(_apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Make the audit trail append-only in the database itself."""
    for statement in list_create_triggers(schema_editor.connection):
        schema_editor.execute(statement)


def drop_triggers(_apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for statement in list_drop_triggers(schema_editor.connection):
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="User",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "username",
                    models.CharField(
                        error_messages={"unique": "A user with that username already exists."},
                        help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                        max_length=150,
                        unique=True,
                        validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
                        verbose_name="username",
                    ),
                ),
                ("first_name", models.CharField(blank=True, max_length=150, verbose_name="first name")),
                ("last_name", models.CharField(blank=True, max_length=150, verbose_name="last name")),
                ("email", models.EmailField(blank=True, max_length=254, verbose_name="email address")),
                (
                    "is_staff",
                    models.BooleanField(
                        default=False,
                        help_text="Designates whether the user can log into this admin site.",
                        verbose_name="staff status",
                    ),
                ),
                (
                    "is_active",
                    models.BooleanField(
                        default=True,
                        help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                        verbose_name="active",
                    ),
                ),
                (
                    "date_joined",
                    models.DateTimeField(default=django.utils.timezone.now, verbose_name="date joined"),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("PERSON", "Person"), ("SERVICE_ACCOUNT", "Service account")],
                        default="PERSON",
                        editable=False,
                        max_length=16,
                    ),
                ),
            ],
            options={
                "verbose_name": "user",
                "verbose_name_plural": "users",
                "abstract": False,
            },
            managers=[
                ("objects", rbac.models.users.PersonManager()),
            ],
        ),
        migrations.CreateModel(
            name="Scope",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("ACCOUNT", "Account"),
                            ("ORGANIZATION", "Organization"),
                            ("PROJECT", "Project"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "identifier",
                    models.CharField(
                        max_length=128,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z_][A-Za-z0-9_$]{0,127}\\Z",
                                "Use up to 128 letters, digits, underscores and dollar signs, starting with a letter or underscore.",
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                ("path", models.CharField(editable=False, max_length=400, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("archived_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "parent",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="children",
                        to="rbac.scope",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Role",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "identifier",
                    models.CharField(
                        max_length=128,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z_][A-Za-z0-9_$]{0,127}\\Z",
                                "Use up to 128 letters, digits, underscores and dollar signs, starting with a letter or underscore.",
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                ("builtin", models.BooleanField(default=False, editable=False)),
                (
                    "scope",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="roles",
                        to="rbac.scope",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ResourceGroup",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "identifier",
                    models.CharField(
                        max_length=128,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z_][A-Za-z0-9_$]{0,127}\\Z",
                                "Use up to 128 letters, digits, underscores and dollar signs, starting with a letter or underscore.",
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                ("description", models.CharField(blank=True, max_length=400)),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="resource_groups",
                        to="rbac.scope",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Invitation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("email", models.EmailField(max_length=254)),
                ("hash", models.CharField(editable=False, max_length=64, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                ("accepted_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "accepted_by",
                    models.ForeignKey(
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="invitations_accepted",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "invited_by",
                    models.ForeignKey(
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="invitations_sent",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "role",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="invitations",
                        to="rbac.role",
                    ),
                ),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="invitations",
                        to="rbac.scope",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(auto_now_add=True, db_index=True)),
                ("actor_name", models.CharField(max_length=150)),
                ("api_key_prefix", models.CharField(blank=True, max_length=16)),
                ("action", models.CharField(max_length=64)),
                ("thing_type", models.CharField(max_length=64)),
                ("thing_id", models.CharField(max_length=64)),
                ("thing_name", models.CharField(max_length=400)),
                ("before", models.JSONField(null=True)),
                ("after", models.JSONField(null=True)),
                ("source", models.CharField(max_length=32)),
                ("request_id", models.CharField(blank=True, max_length=64)),
                ("address", models.CharField(blank=True, max_length=64)),
                (
                    "actor",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="audit_entries",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "scope",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="audit_entries",
                        to="rbac.scope",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "audit entries",
            },
        ),
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                ("prefix", models.CharField(editable=False, max_length=16)),
                ("hash", models.CharField(editable=False, max_length=64, unique=True)),
                ("permissions", models.JSONField(blank=True, default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("rotated_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("previous_hash", models.CharField(blank=True, db_index=True, editable=False, max_length=64)),
                ("previous_until", models.DateTimeField(blank=True, editable=False, null=True)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="api_keys_made",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_keys",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "scope",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_keys",
                        to="rbac.scope",
                    ),
                ),
            ],
            options={
                "verbose_name": "API key",
            },
        ),
        migrations.CreateModel(
            name="ServiceAccount",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "identifier",
                    models.CharField(
                        max_length=128,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z_][A-Za-z0-9_$]{0,127}\\Z",
                                "Use up to 128 letters, digits, underscores and dollar signs, starting with a letter or underscore.",
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                ("description", models.CharField(blank=True, max_length=400)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="service_accounts",
                        to="rbac.scope",
                    ),
                ),
                (
                    "user",
                    models.OneToOneField(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="service_account",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="UserGroup",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "identifier",
                    models.CharField(
                        max_length=128,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z_][A-Za-z0-9_$]{0,127}\\Z",
                                "Use up to 128 letters, digits, underscores and dollar signs, starting with a letter or underscore.",
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=128)),
                ("external_name", models.CharField(blank=True, max_length=255)),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="user_groups",
                        to="rbac.scope",
                    ),
                ),
                (
                    "users",
                    models.ManyToManyField(
                        blank=True, related_name="user_groups", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RoleAssignment",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "resource_group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="assignments",
                        to="rbac.resourcegroup",
                    ),
                ),
                (
                    "role",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="assignments",
                        to="rbac.role",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="assignments",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="assignments",
                        to="rbac.scope",
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="assignments",
                        to="rbac.usergroup",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ResourceGroupEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "resource",
                    models.CharField(max_length=32, validators=[rbac.models.roles.validate_resource]),
                ),
                ("identifier", models.CharField(blank=True, max_length=128)),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="entries",
                        to="rbac.resourcegroup",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "resource group entries",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("group", "resource", "identifier"), name="resource_entry_unique"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RolePermission",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "permission",
                    models.CharField(max_length=64, validators=[rbac.models.roles.validate_permission]),
                ),
                (
                    "role",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="permissions",
                        to="rbac.role",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("permission", "role"), name="role_permission_unique")
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="scope",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "ACCOUNT"), ("parent__isnull", True)),
                    models.Q(models.Q(("kind", "ACCOUNT"), _negated=True), ("parent__isnull", False)),
                    _connector="OR",
                ),
                name="scope_account_is_the_root",
            ),
        ),
        migrations.AddConstraint(
            model_name="role",
            constraint=models.UniqueConstraint(fields=("scope", "identifier"), name="role_unique_in_scope"),
        ),
        migrations.AddConstraint(
            model_name="role",
            constraint=models.UniqueConstraint(
                condition=models.Q(("scope__isnull", True)),
                fields=("identifier",),
                name="builtin_role_unique",
            ),
        ),
        migrations.AddConstraint(
            model_name="resourcegroup",
            constraint=models.UniqueConstraint(
                fields=("scope", "identifier"), name="resource_group_unique_in_scope"
            ),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.UniqueConstraint(
                condition=models.Q(("accepted_at", None), ("revoked_at", None)),
                fields=("email", "scope", "role"),
                name="invitation_open_once",
            ),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["actor_name", "id"], name="audit_by_actor"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["thing_type", "thing_id", "id"], name="audit_by_thing"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["request_id"], name="audit_by_request"),
        ),
        migrations.AddConstraint(
            model_name="apikey",
            constraint=models.UniqueConstraint(fields=("user", "name"), name="api_key_name_unique"),
        ),
        migrations.AddConstraint(
            model_name="serviceaccount",
            constraint=models.UniqueConstraint(
                fields=("scope", "identifier"), name="service_account_unique_in_scope"
            ),
        ),
        migrations.AddConstraint(
            model_name="usergroup",
            constraint=models.UniqueConstraint(
                fields=("scope", "identifier"), name="user_group_unique_in_scope"
            ),
        ),
        migrations.AddConstraint(
            model_name="usergroup",
            constraint=models.UniqueConstraint(
                condition=models.Q(("external_name", ""), _negated=True),
                fields=("external_name",),
                name="user_group_external_name_unique",
            ),
        ),
        migrations.AddConstraint(
            model_name="roleassignment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("group__isnull", True), ("user__isnull", False)),
                    models.Q(("group__isnull", False), ("user__isnull", True)),
                    _connector="OR",
                ),
                name="assignment_to_one_principal",
            ),
        ),
        migrations.AddConstraint(
            model_name="roleassignment",
            constraint=models.UniqueConstraint(
                condition=models.Q(("resource_group", None)),
                fields=("user", "role", "scope"),
                name="assignment_unique_user",
            ),
        ),
        migrations.AddConstraint(
            model_name="roleassignment",
            constraint=models.UniqueConstraint(
                condition=models.Q(("resource_group", None)),
                fields=("group", "role", "scope"),
                name="assignment_unique_group",
            ),
        ),
        migrations.AddConstraint(
            model_name="roleassignment",
            constraint=models.UniqueConstraint(
                fields=("user", "role", "scope", "resource_group"), name="assignment_unique_user_part"
            ),
        ),
        migrations.AddConstraint(
            model_name="roleassignment",
            constraint=models.UniqueConstraint(
                fields=("group", "role", "scope", "resource_group"), name="assignment_unique_group_part"
            ),
        ),
        migrations.RunPython(fill_in, migrations.RunPython.noop),
        # Last of all: SQLite makes a table anew to alter it, and a new table has no triggers.
        migrations.RunPython(add_triggers, drop_triggers),
    ]
