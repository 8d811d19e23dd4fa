"""The command `tosaic`: one file per verb."""
