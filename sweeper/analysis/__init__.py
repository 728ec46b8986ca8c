"""Analysis of results: tables, figures, the page."""
