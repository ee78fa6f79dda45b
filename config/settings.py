"""Django settings of every process, in embedded and production mode."""

import ssl
from datetime import timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

from csp.constants import NONCE, NONE, SELF

from config.databases import build_database_settings, build_web_options
from config.environment import ROOT, VERSION, read_environment
from guards import limits
from guards.address_policy import AddressPolicy, parse_networks

ENV = read_environment()
HEALTH_TOKEN = ENV.health_token
WORKER_METRICS_PORT = ENV.worker_metrics_port
SLIPWAY_VERSION = VERSION
HOME = ENV.home
# Commits of repositories that this Slipway itself has fetched.
GIT_CACHE = HOME / "repositories"
EMBEDDED = ENV.embedded

# --- Django ---------------------------------------------------------------------------------------
SECRET_KEY = ENV.secret_key
DEBUG = ENV.debug
PUBLIC_URL = (ENV.public_url or f"http://127.0.0.1:{ENV.port}").rstrip("/")
_public = urlsplit(PUBLIC_URL)
ALLOWED_HOSTS = [*ENV.allowed_hosts, *([_public.hostname] if _public.hostname else [])]
if EMBEDDED:
    ALLOWED_HOSTS += ["127.0.0.1", "localhost", "[::1]"]
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "rbac.User"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"

INSTALLED_APPS = [
    # Before our apps, which unregister their tables from the admin site.
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.mfa",
    "accounts.apps.SessionListConfig",
    "web",
    "rbac",
    "accounts",
    "connectors",
    "notifications",
    "policies",
    "gitsync",
    "delegates",
    "catalog",
    "pipelines",
    "deployments",
    "inventory",
    "ops",
    # After all our apps, because it connects them.
    "config.apps.WiringConfig",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.forms",
    "channels",
    "csp",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    *(["sandbox"] if EMBEDDED else []),
]

MIDDLEWARE = [
    # Probes name this machine by its IP address, which no other middleware lets pass.
    "ops.health.HealthMiddleware",
    "ops.metrics.MetricsMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    # After the static files, which are compressed already. It adds random bytes, and CSRF tokens are masked,
    # so the length of a response reveals no secret in it.
    "django.middleware.gzip.GZipMiddleware",
    "csp.middleware.CSPMiddleware",
    "web.http.origin_policy.SecurityHeadersMiddleware",
    "web.http.middleware.RequestIdMiddleware",
    "web.http.text_middleware.TextMiddleware",
    "web.http.origin_policy.OriginPolicyMiddleware",
    # Before sessions and sign-in, which write too.
    "web.http.middleware.WriteGuardMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "web.http.middleware.PermissionCacheMiddleware",
    "web.http.middleware.CurrentScopeMiddleware",
    "accounts.authentication.sessions.SessionLifetimeMiddleware",
    "accounts.authentication.admin_middleware.AdminSecondFactorMiddleware",
]

# Widgets use our templates first.
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "web.navigation.get_navigation_context",
            ],
        },
    }
]


# --- Database -------------------------------------------------------------------------------------
DATABASES = {"default": build_database_settings(ENV.database_url, HOME)}
WEB_DATABASE_OPTIONS = build_web_options(DATABASES["default"], ENV.database_pool_size)

# --- Broker, channel layer, cache ------------------------------------------------------------------
REDIS_URL = ENV.redis_url or f"unix://{HOME / 'valkey.sock'}"


def _build_redis_url(number: int) -> str:
    url = urlsplit(REDIS_URL)
    return (
        f"unix://{url.path}?db={number}" if url.scheme == "unix" else url._replace(path=f"/{number}").geturl()
    )


CELERY_BROKER_URL = (
    f"redis+socket://{urlsplit(REDIS_URL).path}?virtual_host=0"
    if REDIS_URL.startswith("unix:")
    else _build_redis_url(0)
)
# Without it, kombu accepts any certificate. Options in the address, such as `ssl_ca_certs`, take precedence.
CELERY_BROKER_USE_SSL = {"ssl_cert_reqs": ssl.CERT_REQUIRED} if REDIS_URL.startswith("rediss:") else False
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CONCURRENCY = ENV.worker_concurrency
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
# Remote control of workers is off.
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 10
# A pass ends after 30 s by itself, and starts within 10 s; these limits only end one that hangs.
CELERY_TASK_SOFT_TIME_LIMIT = 45
CELERY_TASK_TIME_LIMIT = 50
# Short timeouts for a broker that does not respond: requests continue, workers reconnect.
BROKER_WAITS = {"socket_connect_timeout": 3, "socket_timeout": 10}
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 120, **BROKER_WAITS}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_DEFAULT_QUEUE = "slipway"
CELERY_BEAT_SCHEDULER = "config.beat:Scheduler"
CELERY_BEAT_SCHEDULE_FILENAME = str(HOME / "beat-schedule")
CELERY_BEAT_MAX_LOOP_INTERVAL = 1
# How long rows are kept, by the variable that says so.
RETENTION_DAYS = ENV.retention_days
ARCHIVE_DELEGATES_AFTER = timedelta(days=ENV.archive_delegates_days)
_PRUNE_SECONDS = {
    "executions": 600.0,
    "deployments": 600.0,
    "instances": 600.0,
    "drift": 600.0,
    "notifications": 3600.0,
    "sessions": 3600.0,
    "drafts": 3600.0,
    "idempotency": 3600.0,
    "delegates": 600.0,
    "acceptance": 3600.0,
}
CELERY_BEAT_SCHEDULE = {
    "tick": {"task": "ops.tasks.tick", "schedule": 1.0, "options": {"expires": 3}},
    "instances": {
        "task": "inventory.tasks.tick",
        "schedule": 5.0,
        "kwargs": {"kind": "sync"},
        "options": {"expires": 10},
    },
    "hidden-lines": {
        "task": "deployments.tasks.show_hidden_log_lines",
        "schedule": 15.0,
        "options": {"expires": 15},
    },
    "delegate-upgrades": {
        "task": "ops.tasks.upgrade_delegates",
        "schedule": 30.0,
        "options": {"expires": 30},
    },
    "drift": {
        "task": "inventory.tasks.tick",
        "schedule": 10.0,
        "kwargs": {"kind": "drift"},
        "options": {"expires": 20},
    },
    **{
        f"prune-{group}": {
            "task": "ops.tasks.prune",
            "schedule": seconds,
            "kwargs": {"group": group},
            "options": {"expires": int(seconds)},
        }
        for group, seconds in _PRUNE_SECONDS.items()
    },
}

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [_build_redis_url(1)], "prefix": "slipway"},
    }
}
CACHES: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": _build_redis_url(2),
        "OPTIONS": {
            "pool_class": "web.http.cache_pool.SharedConnectionPool",
            "socket_connect_timeout": 3,
            "socket_timeout": 3,
        },
    }
}

# --- Secrets and AWS -------------------------------------------------------------------------------
FIELD_ENCRYPTION_KEYS = ENV.field_encryption_keys
ALLOW_AWS_ENDPOINTS = EMBEDDED if ENV.aws_endpoints_allowed is None else ENV.aws_endpoints_allowed
OUTGOING_REACH = AddressPolicy(
    allows_private=EMBEDDED,
    allowed_networks=parse_networks(ENV.private_networks),
    advice="where that is meant, name its network in SLIPWAY_PRIVATE_NETWORKS",
)
AWS_QUOTA_SHARE = ENV.aws_quota_share
ALLOW_MANAGER_CREDENTIALS = ENV.lends_own_credentials
DELEGATE_IMAGES = {"v3": ENV.delegate_image, "legacy": ENV.legacy_delegate_image or ENV.delegate_image}
SANDBOX_PORT = ENV.sandbox_port or ENV.port + 1
SANDBOX_SPEED = ENV.sandbox_speed
SANDBOX_URL = f"http://127.0.0.1:{SANDBOX_PORT}" if EMBEDDED else ""

# --- Sign-in, sessions, headers --------------------------------------------------------------------
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/sign-in/"
AUTHENTICATION_BACKENDS = ["accounts.authentication.adapters.UserBackend"]
# django-allauth provides the sign-in steps; texts, URLs and limits are in `accounts.authentication`.
ACCOUNT_ADAPTER = "accounts.authentication.adapters.SignInAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_RATE_LIMITS = False
ADMIN_NEEDS_SECOND_FACTOR = ENV.admin_needs_second_factor
MFA_ADAPTER = "accounts.authentication.adapters.TwoFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_TOLERANCE = 1
MFA_RECOVERY_CODE_DIGITS = 10
OIDC_ISSUER = ENV.oidc_issuer
OIDC_CLIENT_ID, OIDC_CLIENT_SECRET = ENV.oidc_client_id, ENV.oidc_client_secret
OIDC_NAME, OIDC_SCOPES, OIDC_GROUPS_CLAIM = ENV.oidc_name, ENV.oidc_scopes, ENV.oidc_groups_claim
OIDC_ALLOW_NEW_USERS = ENV.oidc_new_users_allowed
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "rbac.access_changes.PasswordChangePublisher"},
]
SECURE = _public.scheme == "https"
DATA_UPLOAD_MAX_MEMORY_SIZE = limits.BODY_BYTES
DATA_UPLOAD_MAX_NUMBER_FIELDS = limits.FORM_FIELDS
DATA_UPLOAD_MAX_NUMBER_FILES = limits.FORM_FILES
SESSION_ENGINE = "web.http.sessions"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE
SESSION_COOKIE_NAME = "__Host-slipway" if SECURE else "slipway"
SESSION_COOKIE_AGE = int(limits.SESSION_SECONDS)
PASSWORD_RESET_TIMEOUT = 3600
SECURE_HSTS_SECONDS = ENV.hsts_seconds if SECURE else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE and ENV.hsts_covers_subdomains
SECURE_HSTS_PRELOAD = SECURE and ENV.hsts_preload
# Both are choices of who owns the domain.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SECURE_SSL_REDIRECT = SECURE
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SECURE else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "web.http.error_pages.handle_csrf_failure"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, NONCE],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        # Firefox and Safari support only the older name.
        "report-uri": "/csp-reports",
        "report-to": "csp",
    }
}

# --- E-mail ----------------------------------------------------------------------------------------
_mail = urlsplit(ENV.email_url)
# Embedded, letters are printed where the process logs. In production a log is no place for links that open
# accounts: without a server none is sent.
EMAIL_BACKEND = (
    f"django.core.mail.backends.{'console' if EMBEDDED and not ENV.email_url else 'smtp'}.EmailBackend"
)
EMAIL_HOST, EMAIL_HOST_USER = _mail.hostname or "", unquote(_mail.username or "")
EMAIL_HOST_PASSWORD = unquote(_mail.password or "")
EMAIL_USE_SSL = _mail.scheme == "smtps"
EMAIL_PORT = _mail.port or (465 if EMAIL_USE_SSL else 587)
EMAIL_USE_TLS = _mail.scheme == "smtp" and _mail.hostname not in ("127.0.0.1", "localhost")
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = SERVER_EMAIL = ENV.email_from or f"Slipway <slipway@{_public.hostname}>"

# --- Static files ----------------------------------------------------------------------------------
STATIC_URL = "/static/"
STATIC_ROOT = HOME / "static"
STATICFILES_DIRS = [ROOT / "static"]
# Where `make docs` puts the documentation, served under /docs/.
DOCUMENTATION_ROOT = ROOT / "site"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "web.http.static_files.HashedStaticFiles"},
}

# --- REST ------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "web.api.authentication.ApiKeyAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["web.api.parsers.GuardedJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "web.http.pagination.CursorPagination",
    "DEFAULT_SCHEMA_CLASS": "web.api.openapi.PatternedAutoSchema",
    "EXCEPTION_HANDLER": "web.http.problems.handle_api_exception",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
API_REQUESTS_PER_MINUTE = ENV.api_requests_per_minute
SPECTACULAR_SETTINGS = {
    "TITLE": "Slipway API",
    "DESCRIPTION": "Delegates and Amazon ECS deployments.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    # The paths contain /api/v1.
    "SERVERS": [{"url": PUBLIC_URL, "description": "This installation"}],
    "DEFAULT_GENERATOR_CLASS": "web.api.openapi.CachedSchemaGenerator",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "web.api.openapi.drop_null_beside_any",
        "web.api.openapi.forbid_additional_properties",
        "web.api.openapi.add_number_bounds",
        "web.api.openapi.add_problem_responses",
        "web.api.openapi.add_idempotency_keys",
    ],
    # Serializers declare the required fields of PATCH; the schema drops none.
    "COMPONENT_SPLIT_PATCH": False,
    "ENUM_NAME_OVERRIDES": {
        "ScopeKind": "rbac.models.Scope.Kind",
        "AcceptanceRunStatus": "ops.models.AcceptanceRun.Status",
        "ConnectorKind": "connectors.models.Connector.Kind",
        "EnvironmentKind": "catalog.models.Environment.Kind",
        "ManifestKind": "catalog.models.Manifest.Kind",
        "ExecutionStatus": "steps.states.Status",
        "ApprovalStatus": "deployments.models.Approval.Status",
        "DelegateTokenStatus": "delegates.models.DelegateToken.Status",
        "Connectivity": "delegates.connectivity.Connectivity",
        "DelegateTaskStatus": "delegates.models.DelegateTask.Status",
        "DelegateTaskKind": "delegates.models.DelegateTask.Kind",
        "RuleVerdict": "delegates.api.tasks.VERDICTS",
        "DelegateTokenSource": "delegates.api.setups.SECRET_KINDS",
        "DelegateNetworkMode": "delegates.api.setups.NETWORK_MODES",
        "ProxyScheme": "delegates.api.setups.PROXY_SCHEMES",
        "PermissionIdentifier": "rbac.permissions.PERMISSION_IDENTIFIERS",
        "PrincipalType": "accounts.api.principals.PRINCIPAL_TYPES",
        "InvitationState": "rbac.models.Invitation.STATES",
        "Decision": "deployments.execution.interventions.DECISIONS",
        "DriftState": "inventory.models.drift.DriftComparison.State",
        "AdoptionState": "inventory.models.adoption.Adoption.State",
        "NotificationEvent": "notifications.events.EventType",
        "NotifiableEvent": "notifications.events.SUBSCRIBABLE_EVENTS",
        "TriggerFiringStatus": "pipelines.models.TriggerFiring.Status",
        "NotificationStatus": "notifications.models.Notification.Status",
        "GitProvider": "gitsync.models.GitSyncHook.Provider",
        "GitSyncCause": "gitsync.models.GitSync.Cause",
        "GitSyncProposalState": "gitsync.models.GitSyncProposal.State",
        "GitSyncState": "gitsync.models.GitSync.State",
        "GitSyncResourceState": "gitsync.models.GitSyncResource.State",
        "GitSyncResult": "gitsync.models.GitSyncRun.Result",
        "PolicySubject": "policies.models.PolicyRule.Subject",
        "PolicyEffect": "policies.models.PolicyRule.Effect",
        "NotificationRuleKind": "notifications.models.NotificationRule.Kind",
        "NameState": "pipelines.completion.items.CompletionState",
        "WorkDelayCode": "web.work_delays.DelayCode",
    },
}

# --- Logs of the processes themselves ---------------------------------------------------------------
DEFAULT_EXCEPTION_REPORTER = "web.http.exception_reports.RedactedExceptionReporter"
DEFAULT_EXCEPTION_REPORTER_FILTER = "web.http.exception_reports.ValueRedactionFilter"
LOG_LINES = {
    "()": "guards.log_lines.LineFormatter",
    "style": ENV.log_format or ("text" if EMBEDDED else "json"),
    "secrets": ENV.secrets,
}
_ROUTINE_LEVEL = "WARNING" if EMBEDDED else "NOTSET"
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"lines": LOG_LINES},
    "filters": {
        "requests": {"()": "web.http.request_log.RequestLogFilter"},
        "outages": {"()": "web.http.outages.OutageLogFilter"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "lines",
            "filters": ["requests", "outages"],
        },
    },
    "root": {"handlers": ["stderr"], "level": ENV.log_level},
    "loggers": {
        # Pages of the demo refresh themselves: a line for each request would hide the others.
        "slipway.requests": {"level": _ROUTINE_LEVEL},
        # Answers with 4xx have a line in `slipway.requests`.
        "django.request": {"level": "ERROR"},
        # They log every URL, and URLs of steps may contain secrets.
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        # Without the handlers that uvicorn gave them, and without its lines for requests, which have paths.
        "uvicorn": {"propagate": True, "level": _ROUTINE_LEVEL},
        "uvicorn.access": {"level": "WARNING", "propagate": True},
        "celery.app.trace": {"level": "WARNING"},
        # After a pause it names each message that came too late.
        "celery.worker.request": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.beat": {"level": "WARNING"},
    },
}
