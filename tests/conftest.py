import pytest
from hypothesis import HealthCheck, Phase, settings

from kafka_marshal.testing.fixtures import kafka_broker, kafka_cluster

__all__ = ["kafka_broker", "kafka_cluster"]  # one for the whole session, for all tests

# No verdict depends on how busy the machine is.
settings.register_profile("night", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("tests", settings.get_profile("night"), max_examples=40)
# `make mutants`: also the same examples for every mutant. Shrinking would only say more nicely what
# is wrong with a mutant.
settings.register_profile(
    "mutants",
    derandomize=True,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    phases=(Phase.explicit, Phase.generate),
)


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("night" if config.getoption("all") else "tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the outcomes in tests/golden, to be reviewed as a diff",
    )
