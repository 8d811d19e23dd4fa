"""`python -m tosaic`: the command line, where the script `tosaic` is not on the path."""

from tosaic.cli.app import main

if __name__ == "__main__":
    main()
