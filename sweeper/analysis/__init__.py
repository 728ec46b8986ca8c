"""Analysis of results: tables, figures, advice, the page."""
