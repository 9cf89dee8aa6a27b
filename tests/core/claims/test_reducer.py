import pytest

from kafka_marshal import FENCED, ORIGINAL, Claim, Record, Rules, step


@pytest.mark.parametrize("rules", [FENCED, ORIGINAL], ids=lambda rules: rules.rule_set.value)
def test_what_is_no_message_is_our_own_mistake(rules: Rules) -> None:
    record = Record(0, 0, 0, "Heartbeat/1/1/i/c/g/t/0/0")  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="'Heartbeat/1/1/i/c/g/t/0/0'"):
        step(Claim(), record, rules)
