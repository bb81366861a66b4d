"""`python -m tdsl` is `tdsl`."""

from tdsl.cli import main

if __name__ == "__main__":
    main()
