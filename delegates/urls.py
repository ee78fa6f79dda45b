"""URLs of the pages of delegates, tokens, configurations, delegate tasks and connector tests."""

from django.urls import path

from delegates.pages import (
    configurations,
    connector_tests,
    delegates,
    installation,
    network_checks,
    network_choices,
    tasks,
    tokens,
)

urlpatterns = [
    path("delegates/", delegates.list_delegates, name="delegates"),
    path("delegates/<int:pk>/", delegates.show_delegate, name="delegate"),
    path("delegates/<int:pk>/edit/", delegates.EditDelegate.as_view(), name="edit-delegate"),
    path("delegates/<int:pk>/disable/", delegates.DisableDelegate.as_view(), name="disable-delegate"),
    path("delegates/<int:pk>/delete/", delegates.DeleteDelegate.as_view(), name="delete-delegate"),
    path("delegates/<int:pk>/approve/", delegates.approve_delegate, name="approve-delegate"),
    path("delegates/<int:pk>/reject/", delegates.reject_delegate, name="reject-delegate"),
    path("delegates/<int:pk>/enable/", delegates.enable_delegate, name="enable-delegate"),
    path("delegates/<int:pk>/restore/", delegates.restore_delegate, name="restore-delegate"),
    path("delegates/<int:pk>/drain/", delegates.drain_delegate, name="drain-delegate"),
    path("delegates/<int:pk>/blocks/<int:entry>/", delegates.delete_block, name="lift-block"),
    path("delegates/help/", installation.show_install_help, name="help-with-delegates"),
    path("delegates/<int:pk>/diagnose/", tasks.diagnose_delegate, name="diagnose-delegate"),
    path("delegates/<int:pk>/check/", tasks.check_connectivity, name="check-delegate"),
    path("delegates/tasks/", tasks.list_tasks, name="delegate-tasks"),
    path("delegates/tasks/<uuid:pk>/", tasks.show_task, name="delegate-task"),
    path("delegates/tasks/<uuid:pk>/delegates/", tasks.show_task_delegates, name="delegate-task-delegates"),
    path("delegates/tasks/<uuid:pk>/abort/", tasks.abort_delegate_task, name="abort-delegate-task"),
    path("connectors/<int:pk>/test/", connector_tests.start_connector_test, name="test-connector"),
    path(
        "connectors/<int:pk>/tests/<uuid:inquiry>/",
        connector_tests.show_connector_test,
        name="connector-test",
    ),
    path("delegates/new/", installation.NewDelegate.as_view(), name="delegate-new"),
    path("delegates/new/name/", installation.check_name, name="check-delegate-name"),
    path("delegates/new/network/", network_checks.check_network, name="check-delegate-network"),
    path("delegates/new/choices/<slug:name>/", network_choices.show_choices, name="delegate-choices"),
    path("delegates/<int:pk>/delays/", delegates.show_delegate_delays, name="delegate-delays"),
    path("delegates/<int:pk>/setup/", installation.EditSetup.as_view(), name="edit-delegate-setup"),
    path("delegates/<int:pk>/install/", installation.show_installation, name="install-delegate"),
    path("delegates/<int:pk>/install/download/", installation.download_spec, name="download-delegate"),
    path(
        "delegates/<int:pk>/install/token/", installation.replace_spec_token, name="change-token-of-delegate"
    ),
    path(
        "delegates/<int:pk>/install/token/show/",
        installation.show_spec_token,
        name="show-token-of-delegate",
    ),
    path("delegates/<int:pk>/install/waiting/", installation.show_connect_progress, name="delegate-waiting"),
    path("delegates/configurations/", configurations.list_configurations, name="delegate-configurations"),
    path(
        "delegates/configurations/new/",
        configurations.NewConfiguration.as_view(),
        name="new-delegate-configuration",
    ),
    path(
        "delegates/configurations/<int:pk>/", configurations.show_configuration, name="delegate-configuration"
    ),
    path(
        "delegates/configurations/<int:pk>/edit/",
        configurations.EditConfiguration.as_view(),
        name="edit-delegate-configuration",
    ),
    path(
        "delegates/configurations/<int:pk>/apply/",
        configurations.apply_configuration,
        name="apply-delegate-configuration",
    ),
    path(
        "delegates/configurations/<int:pk>/delete/",
        configurations.DeleteConfiguration.as_view(),
        name="delete-delegate-configuration",
    ),
    path("delegates/tokens/", tokens.list_tokens, name="delegate-tokens"),
    path("delegates/tokens/new/", tokens.NewToken.as_view(), name="new-delegate-token"),
    path("delegates/tokens/<int:pk>/", tokens.show_token, name="delegate-token"),
    path("delegates/tokens/<int:pk>/show/", tokens.reveal_token, name="show-delegate-token"),
    path("delegates/tokens/<int:pk>/rename/", tokens.RenameToken.as_view(), name="rename-delegate-token"),
    path("delegates/tokens/<int:pk>/revoke/", tokens.RevokeToken.as_view(), name="revoke-delegate-token"),
    path("delegates/tokens/<int:pk>/delete/", tokens.DeleteToken.as_view(), name="delete-delegate-token"),
]
