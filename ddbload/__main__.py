"""`python -m ddbload` is the `ddbload` command."""

from ddbload.cli.main import main

if __name__ == "__main__":
    main()
