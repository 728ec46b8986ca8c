"""The search-space language: from YAML to trials."""
