"""The results: files that are whole or not there, rows that are sealed, sweeps that are recorded."""
