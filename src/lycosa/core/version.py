"""The version of Lycosa."""

VERSION = "0.1.0"
