"""Run the `ddbload` command by `python -m ddbload`."""

from ddbload.cli.main import main

if __name__ == "__main__":
    main()
