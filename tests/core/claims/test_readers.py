"""What TLC says that a reader knows who began in the middle, in the sample of `make triples`."""

from tests import machine_samples as machines


def test_a_reader_knows_what_the_specification_says() -> None:
    for each in machines.read():
        if each.deed == "reader":
            assert machines.python(each) == each.said
