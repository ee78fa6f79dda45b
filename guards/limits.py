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
BODY_BYTES: Final = Limit(2 * 1024 * 1024, "bytes", "the body of a request", f"{OWN_CHOICE}: a file, escaped")
BODY_SECONDS: Final = Limit(30, "seconds", "the time that a body may take to arrive", OWN_CHOICE)
URL_BYTES: Final = Limit(8 * 1024, "bytes", "an address with its query", "RFC 9110, section 4.1")
QUERY_FIELDS: Final = Limit(100, "fields", "what follows the ? of an address", OWN_CHOICE)
FORM_FIELDS: Final = Limit(1000, "fields", "a form of a page", OWN_CHOICE)
FORM_FILES: Final = Limit(100, "files", "what is uploaded at once, as large together as a body", OWN_CHOICE)
IDEMPOTENCY_KEY_CHARACTERS: Final = Limit(128, "characters", "an Idempotency-Key", OWN_CHOICE)
CURSOR_CHARACTERS: Final = Limit(1024, "characters", "a cursor of a list", OWN_CHOICE)
MERGED_MANIFEST_LINES: Final = Limit(
    3000, "lines", "a merged manifest on its page; the API answers all", OWN_CHOICE
)
PAGE_ROWS: Final = Limit(200, "rows", "a page of a list", OWN_CHOICE)
ADOPTION_GROUPS: Final = Limit(
    20,
    "target groups",
    "what may become the stage of a pair that is adopted, and is asked for its targets",
    OWN_CHOICE,
)
ADOPTION_ROUTES: Final = Limit(
    50, "choices", "the listener rules to choose from as a pair is adopted", OWN_CHOICE
)
DRIFT_FIELDS: Final = Limit(
    200, "fields", "what is accepted or shown at once of an ECS service that differs", OWN_CHOICE
)
DRIFT_REASON_CHARACTERS: Final = Limit(500, "characters", "why somebody accepts what differs", OWN_CHOICE)
DRIFT_VALUE_CHARACTERS: Final = Limit(
    2000, "characters", "a value that differs, as it is kept and shown", OWN_CHOICE
)
AUDIT_EXPORT_ROWS: Final = Limit(
    100_000, "entries", "an export of the audit trail, the newest first", OWN_CHOICE
)
INVITATION_DAYS: Final = Limit(30, "days", "the time until an invitation ends", OWN_CHOICE)
INVITATIONS_PER_HOUR: Final = Limit(100, "invitations", "what one person sends in an hour", OWN_CHOICE)
REQUESTS_PER_MINUTE: Final = Limit(600, "requests", "one caller of the API in a minute", "ASVS 2.4.1")
REQUESTS_PER_TEN_SECONDS: Final = Limit(100, "requests", "one caller of the API in ten seconds", "ASVS 2.4.1")
SIGN_INS_PER_ACCOUNT: Final = Limit(5, "failures", "signing in to one account in a minute", "ASVS 6.1.1")
SIGN_INS_PER_ADDRESS: Final = Limit(20, "failures", "signing in from one address in a minute", "ASVS 6.1.1")
SIGN_INS_PER_QUARTER_HOUR: Final = Limit(
    20, "failures", "signing in to one account in a quarter of an hour", "ASVS 6.1.1"
)
SIGN_ONS_PER_ADDRESS: Final = Limit(
    60, "requests", "single sign-on from one address in a minute", "ASVS 6.1.1"
)
SIGN_ON_GROUPS: Final = Limit(1000, "groups", "what the provider of single sign-on names", OWN_CHOICE)
RESETS_PER_ADDRESS: Final = Limit(
    10, "requests", "a new password asked for from one address in an hour", "ASVS 6.1.1"
)
RESETS_PER_ACCOUNT: Final = Limit(
    3, "requests", "a new password asked for one e-mail in an hour", "ASVS 6.1.1"
)
SESSION_IDLE_SECONDS: Final = Limit(12 * 3600, "seconds", "a session without a request", "ASVS 7.3.1")
SESSION_SECONDS: Final = Limit(7 * 24 * 3600, "seconds", "a session", "ASVS 7.3.2")
KEY_GRACE_SECONDS: Final = Limit(
    604_800, "seconds", "how long the token before a rotation opens still", OWN_CHOICE
)
BAD_KEYS_PER_ADDRESS: Final = Limit(
    6000, "refusals", "unknown API keys from one address in a minute", "ten callers of the API"
)
CSP_REPORT_BYTES: Final = Limit(16 * 1024, "bytes", "what a browser reports of a page", OWN_CHOICE)
CSP_REPORTS_PER_ADDRESS: Final = Limit(20, "reports", "browsers at one address in a minute", OWN_CHOICE)

# --- Sockets ----------------------------------------------------------------------------------------
SOCKET_BYTES: Final = Limit(64 * 1024, "bytes", "a message of a browser", "ASVS 4.4")
SOCKET_MESSAGES: Final = Limit(20, "messages", "one browser in a second", "ASVS 4.4")
SOCKET_TOPICS: Final = Limit(50, "topics", "what one page hears of", OWN_CHOICE)

# --- Agents -----------------------------------------------------------------------------------------
AGENT_BYTES: Final = Limit(1024 * 1024, "bytes", "a message of an agent, also when unpacked", "ASVS 4.4")
AGENT_TAGS: Final = Limit(50, "tags", "an agent, of its own", OWN_CHOICE)
AGENT_TASKS: Final = Limit(1000, "tasks", "an agent at once", OWN_CHOICE)
AGENT_LINES: Final = Limit(10_000, "lines", "a message of an agent's log, or of its task's", OWN_CHOICE)
SCRIPT_BYTES: Final = Limit(64 * 1024, "bytes", "a start script", OWN_CHOICE)
SCRIPT_SECONDS: Final = Limit(3600, "seconds", "a run of a start script", OWN_CHOICE)
START_SCRIPT_OUTPUT_CHARACTERS: Final = Limit(
    256 * 1024, "characters", "what a start script prints", OWN_CHOICE
)
AGENT_REFUSALS: Final = Limit(
    5, "refusals", "registering one name from one address in a minute", "ASVS 6.1.1"
)
AGENT_REFUSALS_PER_ADDRESS: Final = Limit(
    60, "refusals", "registering from one address in a minute", "ASVS 6.1.1"
)
UNBOUND_REGISTRATIONS: Final = Limit(
    5, "registrations", "one living instance without a key pair, again in a minute", OWN_CHOICE
)

# --- Tasks of agents --------------------------------------------------------------------------------
TASK_LOG_RATE: Final = Limit(
    2 * 1024**2, "bytes", "the log of a task in a second, as it is kept", "ASVS 6.1.1"
)
TASK_LOG_BURST: Final = Limit(10 * 1024**2, "bytes", "the log of a task at once, beside that", "ASVS 6.1.1")
TASK_ANSWER_BYTES: Final = Limit(512 * 1024, "bytes", "an HTTP answer that a task asked for", OWN_CHOICE)
SCRIPT_OUTPUTS_BYTES: Final = Limit(256 * 1024, "bytes", "the outputs of a script", OWN_CHOICE)
PROVISIONER_OUTPUTS: Final = Limit(200, "outputs", "what a provisioning script hands on", OWN_CHOICE)
SCRIPT_OPEN_FILES: Final = Limit(1024, "files", "a script, open at once", OWN_CHOICE)
SCRIPT_PROCESSES: Final = Limit(4096, "processes", "the user that scripts run as", OWN_CHOICE)
SCRIPT_FILE_BYTES: Final = Limit(2 * 1024**3, "bytes", "a file that a script writes", OWN_CHOICE)
SHELL_SCRIPT_BYTES: Final = Limit(64 * 1024, "bytes", "the script of a step", "a start script")
VERIFY_SOURCES: Final = Limit(50, "alarms and metrics", "a step that verifies", OWN_CHOICE)
WAIT_SECONDS: Final = Limit(7 * 24 * 3600, "seconds", "what a step waits at most", OWN_CHOICE)
TERRAFORM_PLAN_BYTES: Final = Limit(
    512 * 1024, "bytes", "a plan of Terraform that is kept", "an agent's message"
)
TERRAFORM_PLAN_TEXT_CHARACTERS: Final = Limit(
    64 * 1024, "characters", "a plan of Terraform as people read it", OWN_CHOICE
)
TERRAFORM_FILE_BYTES: Final = Limit(
    4 * 1024**3, "bytes", "a file that Terraform writes, a provider", OWN_CHOICE
)
TERRAFORM_READ_BYTES: Final = Limit(
    32 * 1024**2, "bytes", "a file of Terraform that the delegate reads, such as a plan in words", OWN_CHOICE
)
GIT_FILES: Final = Limit(500, "files", "what one task fetches from git or S3", OWN_CHOICE)
GIT_FILE_BYTES: Final = Limit(256 * 1024, "bytes", "a file from git or S3", "a file of ours")
GIT_BYTES: Final = Limit(512 * 1024, "bytes", "the files that one task fetches from git or S3", OWN_CHOICE)
MANIFEST_FILES_BYTES: Final = Limit(
    1024 * 1024,
    "bytes",
    "the files of the file store that one manifest names, as a run keeps them",
    OWN_CHOICE,
)
GIT_REFS: Final = Limit(1000, "names", "the branches, and the tags, that one task lists", OWN_CHOICE)
GIT_TRANSFER_BYTES: Final = Limit(
    100 * 1024**2, "bytes", "one commit of a repository, as it is sent", OWN_CHOICE
)
GIT_MEMORY_BYTES: Final = Limit(1024**3, "bytes", "the memory of a git program", OWN_CHOICE)
GIT_OUTPUT_BYTES: Final = Limit(4 * 1024**2, "bytes", "what a git program prints", OWN_CHOICE)
GIT_CACHE_BYTES: Final = Limit(1024**3, "bytes", "the commits of repositories that are kept", OWN_CHOICE)
GIT_CACHE_SECONDS: Final = Limit(7 * 24 * 3600, "seconds", "how long an unused commit is kept", OWN_CHOICE)
HOST_KEYS: Final = Limit(10, "keys", "the SSH host keys of a connector", OWN_CHOICE)
HOST_KEY_CHARACTERS: Final = Limit(4096, "characters", "a line with an SSH host key", OWN_CHOICE)
REGISTRY_TAGS: Final = Limit(10_000, "tags", "what one task lists of a repository", OWN_CHOICE)
TERRAFORM_LOG_BYTES: Final = Limit(
    64 * 1024, "bytes", "a piece of a log of Terraform Cloud, one in each look", OWN_CHOICE
)
SPOOL_BYTES: Final = Limit(
    64 * 1024**2, "bytes", "task logs that an agent keeps until they are sent", OWN_CHOICE
)
DELEGATE_LOG_BYTES: Final = Limit(50_000_000, "bytes", "delegate.log before a new one begins", "R073")
DELEGATE_LOGS_BYTES: Final = Limit(1_000_000_000, "bytes", "delegate.log with its older files", "R076")
DELEGATE_LOG_DAYS: Final = Limit(10, "days", "older files of delegate.log, before today", "R076")

# --- Addresses that people give ----------------------------------------------------------------------
URL_CHARACTERS: Final = Limit(4096, "characters", "a URL that is asked", OWN_CHOICE)
REDIRECTS: Final = Limit(3, "redirects", "one request, where any are followed", "ASVS 13.2.5")
PROVIDER_ANSWER_BYTES: Final = Limit(1024 * 1024, "bytes", "an answer of an identity provider", OWN_CHOICE)

# --- Documents --------------------------------------------------------------------------------------
JSON_DEPTH: Final = Limit(64, "levels", "the nesting of a JSON body", OWN_CHOICE)
JSON_VALUES: Final = Limit(20_000, "values", "a JSON body", OWN_CHOICE)
SPEC_BYTES: Final = Limit(256 * 1024, "bytes", "a file, a manifest, a pipeline", "four times what ECS takes")
SPEC_DEPTH: Final = Limit(40, "levels", "the nesting of a YAML or JSON document", OWN_CHOICE)
TEMPLATE_BYTES: Final = Limit(51_200, "bytes", "a CloudFormation template that is no URL", "CreateStack")
STACK_PARAMETERS: Final = Limit(200, "parameters", "a CloudFormation stack", "CloudFormation quotas")
STACK_TAGS: Final = Limit(50, "tags", "a CloudFormation stack", "CloudFormation quotas")
SPEC_VALUES: Final = Limit(20_000, "values", "a YAML or JSON document", OWN_CHOICE)
RUN_TASK_COUNT: Final = Limit(100, "tasks", "one step that runs tasks", "one DescribeTasks")
TASK_LOG_LINES: Final = Limit(5000, "lines", "what a step shows of the output of its tasks", OWN_CHOICE)
TASK_LOG_READS: Final = Limit(10, "calls", "one look at the output of tasks", "GetLogEvents, 25 in a second")
PATTERN_CHARACTERS: Final = Limit(256, "characters", "a regular expression that a person writes", OWN_CHOICE)
PATTERN_TEXT_CHARACTERS: Final = Limit(
    128, "characters", "a text that is held against such an expression", OWN_CHOICE
)
INPUT_CHARACTERS: Final = Limit(16 * 1024, "characters", "the value of one variable of a run", OWN_CHOICE)
INPUT_SETS: Final = Limit(20, "input sets", "one run", OWN_CHOICE)
MAX_INTEGER: Final = Limit(
    2**63 - 1, "as a value", "a whole number, and as far below zero", f"{POSTGRES} bigint"
)
NUMBER_CHARACTERS: Final = Limit(40, "characters", "a number as it is written", OWN_CHOICE)

# --- Previews ---------------------------------------------------------------------------------------
SCANNED_SERVICES: Final = Limit(
    200,
    "ECS services",
    "a cluster in which a blue/green step looks for others in its target groups",
    OWN_CHOICE,
)
PREVIEW_CALLS: Final = Limit(300, "calls", "what one preview reads of AWS", OWN_CHOICE)
PREVIEW_SECONDS: Final = Limit(25, "seconds", "the time in which one preview may read of AWS", OWN_CHOICE)

# --- What sync sees -----------------------------------------------------------------------------------
SYNC_TEXT_CHARACTERS: Final = Limit(
    4000, "characters", "a text of AWS that sync keeps; what is longer is cut", OWN_CHOICE
)
SYNC_DOCUMENT_VALUES: Final = Limit(5000, "values", "an ECS service as sync keeps it", OWN_CHOICE)
SYNC_SECONDS: Final = Limit(10, "seconds", "between two looks at a cluster that people ask for", OWN_CHOICE)
SYNC_TARGET_GROUPS: Final = Limit(
    50,
    "groups",
    "one look at a cluster asks for the health of, where their services are looked at",
    OWN_CHOICE,
)
SYNC_METRIC_SERVICES: Final = Limit(
    500,
    "services",
    "one look at a cluster asks for CPU and memory of, beside it too, where somebody looks",
    OWN_CHOICE,
)
SYNC_TARGETS: Final = Limit(
    20, "targets", "the unhealthy ones of a target group that are shown, and as many others", OWN_CHOICE
)
SYNC_CALLS: Final = Limit(10_000, "calls", "one look at a cluster", "a hundred times 10,000 tasks")

# --- Texts ------------------------------------------------------------------------------------------
NAME_CHARACTERS: Final = Limit(128, "characters", "a name", OWN_CHOICE)
DESCRIPTION_CHARACTERS: Final = Limit(4096, "characters", "a description", OWN_CHOICE)
PATH_CHARACTERS: Final = Limit(1024, "characters", "a path of the file store", OWN_CHOICE)
PATH_PART_CHARACTERS: Final = Limit(255, "characters", "one name in a path", "file systems")
SECRET_BYTES: Final = Limit(64 * 1024, "bytes", "the value of a secret", "AWS Secrets Manager")
ORGANIZATIONS: Final = Limit(1000, "organizations", "the account, archived ones counted", OWN_CHOICE)
PROJECTS: Final = Limit(1000, "projects", "an organization, archived ones counted", OWN_CHOICE)
RESOURCE_GROUP_ENTRIES: Final = Limit(200, "entries", "a resource group", OWN_CHOICE)
GROUP_MEMBERS: Final = Limit(1000, "people", "a group, as one request sets its members", OWN_CHOICE)
VARIABLES: Final = Limit(200, "variables", "a service, an environment", OWN_CHOICE)
DELEGATE_TAGS: Final = Limit(50, "tags", "what people call one delegate by", OWN_CHOICE)
CHECKED_URL_CHARACTERS: Final = Limit(
    512, "characters", "an address that a delegate is asked to reach", OWN_CHOICE
)
DELEGATE_TASKS: Final = Limit(20, "tasks", "the service of a new delegate", OWN_CHOICE)
DELEGATE_ANSWER_CHARACTERS: Final = Limit(1024, "characters", "one answer about a new delegate", OWN_CHOICE)
VALUE_CHARACTERS: Final = Limit(4096, "characters", "the value of a variable", OWN_CHOICE)
SELECTORS: Final = Limit(20, "tags", "those that a delegate must have", OWN_CHOICE)
TAG_CHARACTERS: Final = Limit(128, "characters", "a tag of a delegate", OWN_CHOICE)
DOWNSIZE_DELAY_SECONDS: Final = Limit(
    604_800, "seconds", "how long a swap keeps the old ECS service", OWN_CHOICE
)
LISTENER_PAIRS: Final = Limit(
    5, "pairs of listeners", "one blue/green step", "ECS: 5 target groups for each service"
)
RETRIES: Final = Limit(100, "times", "how often one step is tried again by itself", OWN_CHOICE)
FAIL_FAST_TASKS: Final = Limit(1000, "tasks", "failed ones that a step waits for", OWN_CHOICE)
STABLE_SECONDS: Final = Limit(600, "seconds", "how long a completed deployment is watched", OWN_CHOICE)
FAIL_FAST_MINUTES: Final = Limit(2880, "minutes", "how long a step waits for a healthy task", OWN_CHOICE)
EXPRESSION_CHARACTERS: Final = Limit(4096, "characters", "a text with an expression in it", OWN_CHOICE)
EXPRESSION_RESULT_CHARACTERS: Final = Limit(
    1_048_576, "characters", "what the expressions of a document come to", OWN_CHOICE
)
EXPRESSION_VALUE_CHARACTERS: Final = Limit(
    1000, "characters", "a value on the page of expressions; the API answers all", OWN_CHOICE
)
PARALLEL_BRANCHES: Final = Limit(20, "branches", "side by side in a stage", OWN_CHOICE)
CONDITION_CHARACTERS: Final = Limit(1024, "characters", "a condition", OWN_CHOICE)
CONDITION_DEPTH: Final = Limit(20, "parentheses", "in each other in a condition", OWN_CHOICE)

# --- Approvals --------------------------------------------------------------------------------------
APPROVAL_GROUPS: Final = Limit(20, "groups", "those whose members can approve one step", OWN_CHOICE)
APPROVALS_NEEDED: Final = Limit(50, "people", "how many have to approve one step", OWN_CHOICE)
APPROVAL_INPUTS: Final = Limit(
    20, "inputs", "what approvers fill in, and the values of one to choose from", OWN_CHOICE
)
APPROVAL_INPUT_CHARACTERS: Final = Limit(1024, "characters", "what an approver fills in", OWN_CHOICE)
APPROVAL_COMMENT_CHARACTERS: Final = Limit(4096, "characters", "the comment of an approver", OWN_CHOICE)
FREEZE_NAMES: Final = Limit(100, "names", "the services, or environments, of one freeze window", OWN_CHOICE)

# --- Notifications ----------------------------------------------------------------------------------
NOTIFICATION_RULES: Final = Limit(100, "rules", "the notification rules of one scope", OWN_CHOICE)
NOTIFICATION_ATTEMPTS: Final = Limit(
    8, "attempts", "how often one notification is sent by itself", OWN_CHOICE
)
NOTIFICATION_HOURS: Final = Limit(24, "hours", "how long a notification is tried", OWN_CHOICE)
NOTIFICATION_DAYS: Final = Limit(30, "days", "how long notifications are kept", OWN_CHOICE)
NOTIFICATION_TEXT_CHARACTERS: Final = Limit(500, "characters", "the text of a notification", OWN_CHOICE)
NOTIFICATION_CAUSE_CHARACTERS: Final = Limit(2000, "characters", "the cause in a notification", OWN_CHOICE)
NOTIFICATION_ANSWER_BYTES: Final = Limit(
    16 * 1024, "bytes", "what is read of a webhook's answer; the rest is left", OWN_CHOICE
)
NOTIFICATION_SECRET_CHARACTERS: Final = Limit(
    256, "characters", "the signing secret of a webhook", OWN_CHOICE
)

LIMITS: Final = {name: value for name, value in globals().items() if isinstance(value, Limit)}
