"""Names of tasks, of the kinds of columns, and of what becomes of missing entries; needs no other package."""

TASKS = ("classification", "regression", "count")
NUMERIC, CATEGORICAL, ORDINAL, DATE, IDENTIFIER = "numeric", "categorical", "ordinal", "date", "identifier"
KINDS = (NUMERIC, CATEGORICAL, ORDINAL, DATE, IDENTIFIER)  # that a person can choose
EMBEDDED, CLOSED, UNUSED = "embedded", "closed", "unused"
INDICATOR, REFUSE = "indicator", "refuse"
ONE_HOT_LIMIT = 20
