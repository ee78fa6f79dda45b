"""Limits on untrusted input, each with its unit and reason; docs/limits.md lists them."""

from typing import Final


class Limit(int):
    """The most that is taken; an int, so that it compares and formats as one."""

    subject: str
    unit: str
    source: str

    def __new__(cls, number: int, unit: str, subject: str, source: str) -> "Limit":
        limit = super().__new__(cls, number)
        limit.unit, limit.subject, limit.source = unit, subject, source
        return limit

    def __str__(self) -> str:
        """Return the number as people read it: 256 KiB, 20,000 values."""
        kibibytes, remainder = divmod(int(self), 1024)
        if self.unit == "bytes" and kibibytes and not remainder:
            return f"{kibibytes:,} KiB"
        return f"{int(self):,} {self.unit}"

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else str(self)


OWN_CHOICE = "our own"
POSTGRES = "PostgreSQL"

# --- Requests ---------------------------------------------------------------------------------------
BODY_BYTES: Final = Limit(2 * 1024 * 1024, "bytes", "request body", f"{OWN_CHOICE}: a file, escaped")
BODY_SECONDS: Final = Limit(30, "seconds", "time to receive a request body", OWN_CHOICE)
URL_BYTES: Final = Limit(8 * 1024, "bytes", "URL with its query", "RFC 9110, section 4.1")
QUERY_FIELDS: Final = Limit(100, "fields", "fields in a URL's query", OWN_CHOICE)
FORM_FIELDS: Final = Limit(1000, "fields", "fields of a submitted form", OWN_CHOICE)
FORM_FILES: Final = Limit(100, "files", "files in one upload, within the size of a request body", OWN_CHOICE)
FORM_DRAFTS: Final = Limit(
    20, "drafts", "entered forms kept for one user who creates a resource for them", OWN_CHOICE
)
FORM_DRAFT_HOURS: Final = Limit(24, "hours", "time that such a draft is kept", OWN_CHOICE)
IDEMPOTENCY_KEY_CHARACTERS: Final = Limit(128, "characters", "Idempotency-Key header", OWN_CHOICE)
IDEMPOTENCY_HOURS: Final = Limit(
    24, "hours", "time that the answer of an Idempotency-Key is kept", OWN_CHOICE
)
CURSOR_CHARACTERS: Final = Limit(1024, "characters", "pagination cursor", OWN_CHOICE)
MERGED_MANIFEST_LINES: Final = Limit(
    3000, "lines", "merged manifest on its page; the API returns all lines", OWN_CHOICE
)
PAGE_ROWS: Final = Limit(200, "rows", "rows on a page of a list", OWN_CHOICE)
ADOPTION_GROUPS: Final = Limit(
    20,
    "target groups",
    "candidates for the stage target group of an adopted pair",
    OWN_CHOICE,
)
ADOPTION_ROUTES: Final = Limit(50, "choices", "listener rules offered for an adopted pair", OWN_CHOICE)
DRIFT_FIELDS: Final = Limit(
    200, "fields", "drifted fields of an ECS service that are shown or accepted at once", OWN_CHOICE
)
DRIFT_REASON_CHARACTERS: Final = Limit(500, "characters", "reason of a drift acceptance", OWN_CHOICE)
DRIFT_VALUE_CHARACTERS: Final = Limit(
    2000, "characters", "stored and displayed value of a drifted field", OWN_CHOICE
)
AUDIT_EXPORT_ROWS: Final = Limit(
    100_000, "entries", "export of the audit trail, newest entries first", OWN_CHOICE
)
INVITATION_DAYS: Final = Limit(30, "days", "validity of an invitation", OWN_CHOICE)
INVITATIONS_PER_HOUR: Final = Limit(100, "invitations", "invitations by one user in an hour", OWN_CHOICE)
REQUESTS_PER_MINUTE: Final = Limit(600, "requests", "API requests of one caller in a minute", "ASVS 2.4.1")
REQUESTS_PER_TEN_SECONDS: Final = Limit(
    100, "requests", "API requests of one caller in ten seconds", "ASVS 2.4.1"
)
SIGN_INS_PER_ACCOUNT: Final = Limit(5, "failures", "failed sign-ins to one account in a minute", "ASVS 6.1.1")
SIGN_INS_PER_ADDRESS: Final = Limit(
    20, "failures", "failed sign-ins from one address in a minute", "ASVS 6.1.1"
)
SIGN_INS_PER_QUARTER_HOUR: Final = Limit(
    20, "failures", "failed sign-ins to one account in 15 minutes", "ASVS 6.1.1"
)
SIGN_ONS_PER_ADDRESS: Final = Limit(
    60, "requests", "single sign-on requests from one address in a minute", "ASVS 6.1.1"
)
PASSKEY_REQUESTS_PER_ADDRESS: Final = Limit(
    60, "requests", "sign-ins with a passkey alone from one address in a minute", "ASVS 6.1.1"
)
PASSKEY_CHALLENGE_SECONDS: Final = Limit(
    300, "seconds", "time to answer with a passkey", "Web Authentication, section 15.1"
)
PASSKEYS_PER_USER: Final = Limit(20, "passkeys", "passkeys of one user", OWN_CHOICE)
PASSKEY_ANSWER_CHARACTERS: Final = Limit(
    20_000, "characters", "answer of a browser with a passkey", OWN_CHOICE
)
SIGN_ON_GROUPS: Final = Limit(1000, "groups", "groups in a single sign-on response", OWN_CHOICE)
RESETS_PER_ADDRESS: Final = Limit(
    10, "requests", "password reset requests from one address in an hour", "ASVS 6.1.1"
)
RESETS_PER_ACCOUNT: Final = Limit(
    3, "requests", "password reset requests for one e-mail address in an hour", "ASVS 6.1.1"
)
SESSION_IDLE_SECONDS: Final = Limit(12 * 3600, "seconds", "idle time of a session", "ASVS 7.3.1")
SESSION_SECONDS: Final = Limit(7 * 24 * 3600, "seconds", "lifetime of a session", "ASVS 7.3.2")
KEY_GRACE_SECONDS: Final = Limit(
    604_800, "seconds", "grace period of the previous token after a rotation", OWN_CHOICE
)
BAD_KEYS_PER_ADDRESS: Final = Limit(
    6000,
    "refusals",
    "requests with an invalid API key from one address in a minute",
    "ten callers of the API",
)
COMMAND_LINE_CODE_SECONDS: Final = Limit(
    300, "seconds", "time to enter the code that signs a command line in", OWN_CHOICE
)
COMMAND_LINE_CODES_PER_ADDRESS: Final = Limit(
    60, "codes", "sign-ins of command lines from one address in a minute", "ASVS 6.1.1"
)
CSP_REPORT_BYTES: Final = Limit(
    16 * 1024, "bytes", "report of a browser about a content security policy violation", OWN_CHOICE
)
CSP_REPORTS_PER_ADDRESS: Final = Limit(
    20, "reports", "browser reports from one address in a minute", OWN_CHOICE
)

TRIGGER_BODY_BYTES: Final = Limit(512 * 1024, "bytes", "payload of a trigger", OWN_CHOICE)
TRIGGER_REPLAY_SECONDS: Final = Limit(300, "seconds", "age of a signed request to a trigger", OWN_CHOICE)
TRIGGER_REQUESTS_PER_MINUTE: Final = Limit(
    120, "requests", "genuine requests to one trigger in a minute", "ASVS 2.4.1"
)
TRIGGER_REFUSALS_PER_ADDRESS: Final = Limit(
    60, "refusals", "refused requests to triggers from one address in a minute", "ASVS 6.1.1"
)
TRIGGER_FIRING_DAYS: Final = Limit(
    30, "days", "time that firings of triggers are kept, to be shown and to detect duplicates", OWN_CHOICE
)
TRIGGERS: Final = Limit(50, "triggers", "triggers of one pipeline", OWN_CHOICE)
TRIGGER_CONDITIONS: Final = Limit(20, "conditions", "conditions of a trigger", OWN_CHOICE)
TRIGGER_SETTING_CHARACTERS: Final = Limit(512, "characters", "setting of a trigger", OWN_CHOICE)
TRIGGER_REPOSITORIES: Final = Limit(
    10, "repositories", "repositories that an image trigger polls", OWN_CHOICE
)
QUEUE_MESSAGE_CHARACTERS: Final = Limit(
    16 * 1024,
    "characters",
    "message of a queue that an image trigger reads",
    f"{OWN_CHOICE}: an event has 1,000",
)
EVENT_CHARACTERS: Final = Limit(
    256 * 1024,
    "characters",
    "event of AWS in the queue of a connector",
    "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevents.html#eb-putevent-size",
)
TRIGGER_EVENTS_PER_LOOK: Final = Limit(
    50, "events", "events that a trigger takes from a repository at once; the others follow", OWN_CHOICE
)
TRIGGER_SETTING_LINES: Final = Limit(50, "values", "values of a list in a trigger's settings", OWN_CHOICE)

# --- Sockets ----------------------------------------------------------------------------------------
SOCKET_BYTES: Final = Limit(64 * 1024, "bytes", "WebSocket message of a browser", "ASVS 4.4")
SOCKET_MESSAGES: Final = Limit(20, "messages", "WebSocket messages of one browser in a second", "ASVS 4.4")
SOCKET_TOPICS: Final = Limit(50, "topics", "topics that one page subscribes to", OWN_CHOICE)

# --- Agents -----------------------------------------------------------------------------------------
AGENT_BYTES: Final = Limit(1024 * 1024, "bytes", "message of an agent, also after decompression", "ASVS 4.4")
AGENT_TAGS: Final = Limit(50, "tags", "tags reported by an agent", OWN_CHOICE)
AGENT_TASKS: Final = Limit(1000, "tasks", "concurrent tasks of an agent", OWN_CHOICE)
AGENT_LINES: Final = Limit(10_000, "lines", "log lines in one upload of an agent", OWN_CHOICE)
AGENT_LOG_REQUESTS: Final = Limit(
    60, "uploads", "uploads of lines of its own log by one instance in a minute", "ASVS 6.1.1"
)
SCRIPT_BYTES: Final = Limit(64 * 1024, "bytes", "configuration script", OWN_CHOICE)
SCRIPT_SECRETS: Final = Limit(10, "secrets", "secrets of a configuration script", OWN_CHOICE)
SCRIPT_SECONDS: Final = Limit(3600, "seconds", "run of a configuration script", OWN_CHOICE)
START_SCRIPT_OUTPUT_CHARACTERS: Final = Limit(
    256 * 1024, "characters", "stored output of a configuration script", OWN_CHOICE
)
AGENT_REFUSALS: Final = Limit(
    5, "refusals", "refused registrations of one name from one address in a minute", "ASVS 6.1.1"
)
AGENT_REFUSALS_PER_ADDRESS: Final = Limit(
    60, "refusals", "refused registrations from one address in a minute", "ASVS 6.1.1"
)
REFUSED_INSTANCES: Final = Limit(
    20, "processes", "processes that a delegate's page shows as refused claimants of instances", OWN_CHOICE
)
UNBOUND_REGISTRATIONS: Final = Limit(
    5, "registrations", "repeated registrations of a live instance without a key pair in a minute", OWN_CHOICE
)

# --- Delegate tasks ---------------------------------------------------------------------------------
TASK_LOG_RATE: Final = Limit(2 * 1024**2, "bytes", "log of a task per second", "ASVS 6.1.1")
TASK_LOG_BURST: Final = Limit(
    10 * 1024**2, "bytes", "log burst of a task, in addition to the rate", "ASVS 6.1.1"
)
TASK_ANSWER_BYTES: Final = Limit(512 * 1024, "bytes", "HTTP response to a task", OWN_CHOICE)
SCRIPT_OUTPUTS_BYTES: Final = Limit(256 * 1024, "bytes", "outputs of a script", OWN_CHOICE)
PROVISIONER_OUTPUTS: Final = Limit(200, "outputs", "outputs of a provisioning script", OWN_CHOICE)
SCRIPT_OPEN_FILES: Final = Limit(1024, "files", "open files of a script", OWN_CHOICE)
SCRIPT_PROCESSES: Final = Limit(4096, "processes", "processes of the user that runs scripts", OWN_CHOICE)
SCRIPT_FILE_BYTES: Final = Limit(2 * 1024**3, "bytes", "file written by a script", OWN_CHOICE)
SHELL_SCRIPT_BYTES: Final = Limit(64 * 1024, "bytes", "script of a step", "configuration script")
VERIFY_SOURCES: Final = Limit(50, "alarms and metrics", "alarms and metrics of a Verify step", OWN_CHOICE)
WAIT_SECONDS: Final = Limit(7 * 24 * 3600, "seconds", "duration of a Wait step", OWN_CHOICE)
TERRAFORM_PLAN_BYTES: Final = Limit(512 * 1024, "bytes", "stored Terraform plan", "an agent's message")
TERRAFORM_PLAN_TEXT_CHARACTERS: Final = Limit(64 * 1024, "characters", "displayed Terraform plan", OWN_CHOICE)
TERRAFORM_FILE_BYTES: Final = Limit(
    4 * 1024**3, "bytes", "file written by Terraform, such as a provider", OWN_CHOICE
)
TERRAFORM_READ_BYTES: Final = Limit(
    32 * 1024**2,
    "bytes",
    "Terraform output file that the delegate reads, such as a rendered plan",
    OWN_CHOICE,
)
GIT_FILES: Final = Limit(500, "files", "files fetched from Git or S3 by one task", OWN_CHOICE)
GIT_FILE_BYTES: Final = Limit(256 * 1024, "bytes", "one file from Git or S3", "a file of ours")
GIT_BYTES: Final = Limit(512 * 1024, "bytes", "all files fetched from Git or S3 by one task", OWN_CHOICE)
MANIFEST_FILES_BYTES: Final = Limit(
    1024 * 1024,
    "bytes",
    "file store files of one manifest, as stored for a run",
    OWN_CHOICE,
)
GIT_REFS: Final = Limit(1000, "names", "branches, and tags, listed by one task", OWN_CHOICE)
GIT_TRANSFER_BYTES: Final = Limit(100 * 1024**2, "bytes", "transfer size of one Git commit", OWN_CHOICE)
GIT_MEMORY_BYTES: Final = Limit(1024**3, "bytes", "memory of a Git process", OWN_CHOICE)
GIT_OUTPUT_BYTES: Final = Limit(4 * 1024**2, "bytes", "output of a Git process", OWN_CHOICE)
GIT_CACHE_BYTES: Final = Limit(1024**3, "bytes", "cache of Git commits", OWN_CHOICE)
GIT_CACHE_SECONDS: Final = Limit(
    7 * 24 * 3600, "seconds", "retention of an unused commit in the cache", OWN_CHOICE
)
GIT_SYNCS: Final = Limit(20, "Git syncs", "Git syncs of one scope", OWN_CHOICE)
GIT_SYNC_SECONDS: Final = Limit(180, "seconds", "time between two reads of a followed branch", OWN_CHOICE)
GIT_SYNC_DOCUMENTS: Final = Limit(500, "documents", "documents of one Git sync", OWN_CHOICE)
GIT_SYNC_PATH_CHARACTERS: Final = Limit(400, "characters", "path of a file of a Git sync", OWN_CHOICE)
GIT_SYNC_FAULTS: Final = Limit(100, "faults", "stored faults of one run of a Git sync", OWN_CHOICE)
GIT_SYNC_RUNS: Final = Limit(100, "runs", "stored runs of one Git sync", OWN_CHOICE)
GIT_SYNC_DIFF_CHARACTERS: Final = Limit(
    16 * 1024, "characters", "stored difference between a resource and its document", OWN_CHOICE
)
HOST_KEYS: Final = Limit(10, "keys", "SSH host keys of a connector", OWN_CHOICE)
HOST_KEY_CHARACTERS: Final = Limit(4096, "characters", "line with an SSH host key", OWN_CHOICE)
REGISTRY_TAGS: Final = Limit(10_000, "tags", "image tags of a repository listed by one task", OWN_CHOICE)
REGISTRY_DIGESTS: Final = Limit(20, "tags", "tags of a registry whose digests a poll reads", OWN_CHOICE)
HIDDEN_LOG_BYTES: Final = Limit(
    4 * 1024 * 1024,
    "bytes",
    "lines of a log that are kept hidden until their secrets are readable",
    OWN_CHOICE,
)
TERRAFORM_LOG_BYTES: Final = Limit(
    64 * 1024, "bytes", "part of a Terraform Cloud log read in one reconcile pass", OWN_CHOICE
)
SPOOL_BYTES: Final = Limit(64 * 1024**2, "bytes", "spool of unsent task logs on an agent", OWN_CHOICE)
DELEGATE_LOG_BYTES: Final = Limit(50_000_000, "bytes", "delegate.log before rotation", "R073")
DELEGATE_LOGS_BYTES: Final = Limit(1_000_000_000, "bytes", "delegate.log with its rotated files", "R076")
DELEGATE_LOG_DAYS: Final = Limit(10, "days", "retention of rotated delegate.log files", "R076")

# --- URLs of outgoing requests ---------------------------------------------------------------------
URL_CHARACTERS: Final = Limit(4096, "characters", "URL of an outgoing request", OWN_CHOICE)
REDIRECTS: Final = Limit(3, "redirects", "redirects of one request, if redirects are allowed", "ASVS 13.2.5")
PROVIDER_ANSWER_BYTES: Final = Limit(1024 * 1024, "bytes", "response of an identity provider", OWN_CHOICE)

# --- Documents --------------------------------------------------------------------------------------
JSON_DEPTH: Final = Limit(64, "levels", "nesting of a JSON request body", OWN_CHOICE)
JSON_VALUES: Final = Limit(20_000, "values", "values in a JSON request body", OWN_CHOICE)
SPEC_BYTES: Final = Limit(256 * 1024, "bytes", "file, manifest or pipeline", "four times what ECS takes")
IMPORT_FILES: Final = Limit(20, "files", "files of one project that is imported", OWN_CHOICE)
IMPORT_BYTES: Final = Limit(512 * 1024, "bytes", "all files of one project that is imported", OWN_CHOICE)
IMPORT_VALUES: Final = Limit(100, "variables", "environment variables that an import sets", OWN_CHOICE)
SPEC_DEPTH: Final = Limit(40, "levels", "nesting of a YAML or JSON document", OWN_CHOICE)
TEMPLATE_BYTES: Final = Limit(51_200, "bytes", "CloudFormation template without a URL", "CreateStack")
STACK_PARAMETERS: Final = Limit(200, "parameters", "CloudFormation stack", "CloudFormation quotas")
STACK_TAGS: Final = Limit(50, "tags", "CloudFormation stack", "CloudFormation quotas")
SPEC_VALUES: Final = Limit(20_000, "values", "values in a YAML or JSON document", OWN_CHOICE)
RUN_TASK_COUNT: Final = Limit(100, "tasks", "ECS tasks of one RunTask step", "one DescribeTasks")
TASK_LOG_LINES: Final = Limit(5000, "lines", "displayed task output of one RunTask step", OWN_CHOICE)
TASK_LOG_READS: Final = Limit(
    10, "calls", "reads of task output in one reconcile pass", "GetLogEvents, 25 in a second"
)
PATTERN_CHARACTERS: Final = Limit(256, "characters", "regular expression entered by a user", OWN_CHOICE)
PATTERN_TEXT_CHARACTERS: Final = Limit(
    128, "characters", "text matched against such an expression", OWN_CHOICE
)
INPUT_CHARACTERS: Final = Limit(16 * 1024, "characters", "value of one input of a run", OWN_CHOICE)
INPUT_SETS: Final = Limit(20, "input sets", "input sets of one run", OWN_CHOICE)
MAX_INTEGER: Final = Limit(
    2**63 - 1, "as a value", "largest integer, and smallest negative one", f"{POSTGRES} bigint"
)
NUMBER_CHARACTERS: Final = Limit(40, "characters", "digits of a number", OWN_CHOICE)

# --- Previews ---------------------------------------------------------------------------------------
SCANNED_SERVICES: Final = Limit(
    200,
    "ECS services",
    "services of a cluster that a blue/green step checks for its target groups",
    OWN_CHOICE,
)
PREVIEW_CALLS: Final = Limit(300, "calls", "AWS reads of one preview", OWN_CHOICE)
PREVIEW_SECONDS: Final = Limit(25, "seconds", "reading time of one preview", OWN_CHOICE)
# Below the minute after which load balancers and proxies close a request.
REHEARSAL_SECONDS: Final = Limit(45, "seconds", "duration of one rehearsal", OWN_CHOICE)

# --- Inventory sync --------------------------------------------------------------------------------
SYNC_TEXT_CHARACTERS: Final = Limit(4000, "characters", "text from AWS; longer texts are cut", OWN_CHOICE)
SYNC_DOCUMENT_VALUES: Final = Limit(5000, "values", "values of a stored ECS service", OWN_CHOICE)
SYNC_SECONDS: Final = Limit(
    10, "seconds", "minimum interval between requested syncs of a cluster", OWN_CHOICE
)
SYNC_TARGET_GROUPS: Final = Limit(
    50,
    "groups",
    "target groups with target health in one sync, for services with an open dashboard",
    OWN_CHOICE,
)
SYNC_METRIC_SERVICES: Final = Limit(
    500,
    "services",
    "services with CPU and memory metrics in one sync, for open dashboards",
    OWN_CHOICE,
)
SYNC_DAEMONS: Final = Limit(
    5, "daemons", "daemons of managed instances that one sync describes, the oldest read first", OWN_CHOICE
)
SYNC_TARGETS: Final = Limit(
    20, "targets", "displayed unhealthy targets of a target group, and as many others", OWN_CHOICE
)
SYNC_CALLS: Final = Limit(
    10_000, "calls", "AWS calls of one sync or drift scan", "a hundred times 10,000 tasks"
)

# --- Texts ------------------------------------------------------------------------------------------
NAME_CHARACTERS: Final = Limit(128, "characters", "name", OWN_CHOICE)
DESCRIPTION_CHARACTERS: Final = Limit(4096, "characters", "description", OWN_CHOICE)
PATH_CHARACTERS: Final = Limit(1024, "characters", "path in the file store", OWN_CHOICE)
PATH_PART_CHARACTERS: Final = Limit(255, "characters", "one segment of a path", "file systems")
SECRET_BYTES: Final = Limit(64 * 1024, "bytes", "value of a secret", "AWS Secrets Manager")
ORGANIZATIONS: Final = Limit(1000, "organizations", "organizations, including archived ones", OWN_CHOICE)
PROJECTS: Final = Limit(1000, "projects", "projects of an organization, including archived ones", OWN_CHOICE)
RESOURCE_GROUP_ENTRIES: Final = Limit(200, "entries", "entries of a resource group", OWN_CHOICE)
GROUP_MEMBERS: Final = Limit(1000, "people", "members of a group in one request", OWN_CHOICE)
VARIABLES: Final = Limit(200, "variables", "variables of a service or an environment", OWN_CHOICE)
DELEGATE_TAGS: Final = Limit(50, "tags", "user tags of one delegate", OWN_CHOICE)
CHECKED_URL_CHARACTERS: Final = Limit(512, "characters", "address of a connectivity check", OWN_CHOICE)
DELEGATE_TASKS: Final = Limit(20, "tasks", "tasks in the service of a new delegate", OWN_CHOICE)
DELEGATE_ANSWER_CHARACTERS: Final = Limit(1024, "characters", "field of the delegate wizard", OWN_CHOICE)
VALUE_CHARACTERS: Final = Limit(4096, "characters", "value of a variable", OWN_CHOICE)
SELECTORS: Final = Limit(20, "tags", "delegate selectors", OWN_CHOICE)
TAG_CHARACTERS: Final = Limit(128, "characters", "tag of a delegate", OWN_CHOICE)
DOWNSIZE_DELAY_SECONDS: Final = Limit(
    604_800, "seconds", "delay before a swap scales down the old ECS service", OWN_CHOICE
)
LISTENER_PAIRS: Final = Limit(
    5, "pairs of listeners", "listener pairs of one blue/green step", "ECS: 5 target groups for each service"
)
TRAFFIC_SHARES: Final = Limit(20, "weights", "weights of one traffic shift step", OWN_CHOICE)
CANARY_TASKS: Final = Limit(1000, "tasks", "tasks of a canary with a share of the traffic", OWN_CHOICE)
RETRIES: Final = Limit(100, "times", "automatic retries of one step", OWN_CHOICE)
FAIL_FAST_TASKS: Final = Limit(1000, "tasks", "failed tasks that a deploying step tolerates", OWN_CHOICE)
STABLE_SECONDS: Final = Limit(600, "seconds", "observation of a completed deployment", OWN_CHOICE)
FAIL_FAST_MINUTES: Final = Limit(2880, "minutes", "wait for the first healthy task", OWN_CHOICE)
EXPRESSION_CHARACTERS: Final = Limit(4096, "characters", "text with an expression", OWN_CHOICE)
EXPRESSION_RESULT_CHARACTERS: Final = Limit(
    1_048_576, "characters", "resolved expressions of a document", OWN_CHOICE
)
EXPRESSION_VALUE_CHARACTERS: Final = Limit(
    1000, "characters", "value on the page of expressions; the API returns it completely", OWN_CHOICE
)
PARALLEL_BRANCHES: Final = Limit(20, "branches", "parallel branches of a stage", OWN_CHOICE)
CONDITION_CHARACTERS: Final = Limit(1024, "characters", "condition", OWN_CHOICE)
CONDITION_DEPTH: Final = Limit(20, "parentheses", "nested parentheses in a condition", OWN_CHOICE)

# --- Approvals --------------------------------------------------------------------------------------
APPROVAL_GROUPS: Final = Limit(20, "groups", "approver groups of one step", OWN_CHOICE)
APPROVALS_NEEDED: Final = Limit(50, "people", "required approvals of one step", OWN_CHOICE)
APPROVAL_INPUTS: Final = Limit(
    20, "inputs", "approver inputs of one step, and allowed values of one input", OWN_CHOICE
)
APPROVAL_INPUT_CHARACTERS: Final = Limit(1024, "characters", "value of an approver input", OWN_CHOICE)
APPROVAL_COMMENT_CHARACTERS: Final = Limit(4096, "characters", "comment of an approver", OWN_CHOICE)
FREEZE_NAMES: Final = Limit(100, "names", "services, or environments, of one freeze window", OWN_CHOICE)

# --- Notifications ----------------------------------------------------------------------------------
NOTIFICATION_RULES: Final = Limit(100, "rules", "notification rules of one scope", OWN_CHOICE)
NOTIFICATION_ATTEMPTS: Final = Limit(
    8, "attempts", "automatic delivery attempts of one notification", OWN_CHOICE
)
NOTIFICATION_HOURS: Final = Limit(24, "hours", "delivery period of one notification", OWN_CHOICE)
NOTIFICATION_TEXT_CHARACTERS: Final = Limit(500, "characters", "text of a notification", OWN_CHOICE)
NOTIFICATION_CAUSE_CHARACTERS: Final = Limit(2000, "characters", "cause in a notification", OWN_CHOICE)
NOTIFICATION_ANSWER_BYTES: Final = Limit(
    16 * 1024, "bytes", "part of a webhook's response that is read", OWN_CHOICE
)
NOTIFICATION_SECRET_CHARACTERS: Final = Limit(
    256, "characters", "signing secret or key of a notification rule", OWN_CHOICE
)
NOTIFICATION_FILTER_NAMES: Final = Limit(
    100, "names", "services, environments or pipelines of one notification rule", OWN_CHOICE
)
NOTIFICATION_DIGEST_MINUTES: Final = Limit(
    720, "minutes", "time between two digests of one notification rule", OWN_CHOICE
)
NOTIFICATION_RECIPIENTS: Final = Limit(20, "recipients", "recipients of one e-mail rule", OWN_CHOICE)

# --- Policies ---------------------------------------------------------------------------------------
POLICY_RULES: Final = Limit(100, "rules", "policy rules of one scope", OWN_CHOICE)
POLICY_CONDITION_CHARACTERS: Final = Limit(2000, "characters", "condition of a policy rule", OWN_CHOICE)
POLICY_CONDITION_DEPTH: Final = Limit(
    12, "brackets", "nested brackets in the condition of a policy rule", OWN_CHOICE
)
POLICY_MESSAGE_CHARACTERS: Final = Limit(500, "characters", "message of a policy rule", OWN_CHOICE)
POLICY_DOCUMENT_CHARACTERS: Final = Limit(
    262_144, "characters", "JSON document that a policy rule is evaluated on", OWN_CHOICE
)
POLICY_EVALUATION_MILLISECONDS: Final = Limit(
    200, "milliseconds", "processor time of one condition of a policy rule", OWN_CHOICE
)
POLICY_TOTAL_MILLISECONDS: Final = Limit(
    2000, "milliseconds", "processor time of all policy rules of one check", OWN_CHOICE
)

LIMITS: Final = {name: value for name, value in globals().items() if isinstance(value, Limit)}
