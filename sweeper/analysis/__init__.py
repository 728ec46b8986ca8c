"""What the results say: tables, figures, advice, the page."""
