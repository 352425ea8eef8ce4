"""The paper's study: which records make which table and figure, and how its way differs from ours."""
