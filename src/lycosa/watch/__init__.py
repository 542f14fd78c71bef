"""Content alerts: report pages that contain given texts.

Here are the alerts themselves and the delivery of their matches; `lycosa.matching` finds them.
"""
