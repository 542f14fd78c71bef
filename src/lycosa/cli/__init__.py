"""The command line: one module for each command.

A module parses options, calls a use case and prints. Commands are imported when they are used.
"""
