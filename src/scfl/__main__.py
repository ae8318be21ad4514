"""``python -m scfl`` is the command line."""

from scfl.cli import main

if __name__ == "__main__":
    main()
