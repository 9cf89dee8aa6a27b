import pytest
from hypothesis import Phase, settings

from kafka_marshal.testing.fixtures import kafka_broker, kafka_cluster

__all__ = ["kafka_broker", "kafka_cluster"]  # one for the whole session, whoever asks for it

# `make mutants`: the same examples for every mutant, and no verdict that depends on how busy the
# machine is. Shrinking would only say more nicely what is wrong with a mutant.
settings.register_profile(
    "mutants",
    derandomize=True,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    phases=(Phase.explicit, Phase.generate),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the outcomes in tests/golden, to be reviewed as a diff",
    )
