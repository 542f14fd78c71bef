"""Readers of documents: one module or package per format, chosen by `kinds`.

A reader writes text, links and metadata to a bounded `Sink`. Readers run in child processes with
limits on memory and time, because libraries may crash on hostile files.
"""
