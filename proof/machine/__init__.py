"""The shipped machine of one claim, proved with any number of clients: a part of `make prove`."""
