"""`python -m lycosa`."""

from lycosa.cli.main import main

main()
