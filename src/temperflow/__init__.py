"""temperflow."""
