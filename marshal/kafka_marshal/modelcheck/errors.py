"""Errors that prevent a model from being checked, as opposed to violations that a check finds."""


class ModelCheckError(Exception):
    """TLC could not run or finish; the message explains why and what to do.

    A violated property is not an error but a result, see `tlc.TlcResult`. The command line turns
    this into exit code 2.
    """
