"""The paper's study: its records, tables and figures, and the differences from our estimates."""
