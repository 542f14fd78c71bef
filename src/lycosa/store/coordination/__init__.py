"""Elect the process that coordinates a workspace, and lock it on one machine.

Both prevent double work. Correctness depends on neither: the claims in the log fence old owners.
"""
