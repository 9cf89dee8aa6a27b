"""The compiled steps, proved to be the reducer: a part of `make prove`."""
