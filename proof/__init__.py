"""The shipped reducer, proved for every claim, record and rule: `make prove`."""
