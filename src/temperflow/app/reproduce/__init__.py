"""Experiments of many rows: the paper's table and figures, and comparisons made by the same machinery.

A row is a recipe on a target. Its seeds train side by side in one program, a batch, which lives in
a directory of its own: settings, checkpoints, trained samplers, their draws, their figures. What is
there is not done again, so an experiment grows over as many sessions, on as many machines, as it needs.
"""
