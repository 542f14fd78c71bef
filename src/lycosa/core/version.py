"""The program's version, apart so that whoever only wants to name it imports nothing else."""

VERSION = "0.1.0"
