"""Figures that only learned algorithms have: success of votes, and walks on a board.

`panels` has what a search space may declare, `votes` and `boards` draw it.
"""
