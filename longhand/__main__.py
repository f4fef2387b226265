"""``python -m longhand``: the command line."""

from longhand.cli import main

if __name__ == "__main__":
    main()
