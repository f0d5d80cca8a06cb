"""Networks from other libraries."""
