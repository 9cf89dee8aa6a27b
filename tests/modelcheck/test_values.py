import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_marshal.modelcheck.tlc.values import (
    Function,
    MalformedValueError,
    ModelValue,
    Value,
    function,
    parse,
    parse_conjuncts,
    record,
    unparse,
)

names = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,5}", fullmatch=True)
scalars = st.one_of(
    st.integers(),
    st.booleans(),
    st.text(max_size=8),
    names.filter(lambda name: name not in ("TRUE", "FALSE")).map(ModelValue),
)


def _compound(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    # As in TLA+, the elements of a set and the arguments of a function are of one kind.
    keys = st.one_of(
        st.lists(st.integers(-3, 6), unique=True, max_size=4),
        st.lists(names, unique=True, max_size=4),
        st.lists(st.text(max_size=4), unique=True, max_size=4),
        st.lists(st.booleans(), unique=True, max_size=2),
        st.lists(names.map(ModelValue), unique=True, max_size=3),
    )
    return st.one_of(
        st.lists(inner, max_size=4).map(tuple),
        keys.map(frozenset),
        st.frozensets(st.tuples(st.text(max_size=2), st.integers()), max_size=3),
        keys.flatmap(
            lambda domain: st.tuples(*[inner for _ in domain]).map(
                lambda results: function(dict(zip(domain, results, strict=True)))
            )
        ),
    )


values = st.recursive(scalars, _compound, max_leaves=12)


@given(values)
def test_a_value_survives_being_written_and_read(value: Value) -> None:
    assert parse(unparse(value)) == value
    assert hash(parse(unparse(value))) == hash(value)


nested = values.map(lambda value: record(before=value, after=record(of=value)))


@given(st.lists(nested, min_size=1, max_size=4))
def test_records_that_are_known_are_read_as_unknown_ones_are(several: list[Value]) -> None:
    known: dict[str, Value] = {}
    for value in [*several, *several]:
        text = unparse(value)
        assert parse(text, known) == parse(text) == value
        assert parse(text, known) is parse(text, known)


def test_a_record_that_is_known_is_the_same_object_wherever_it_stands() -> None:
    known: dict[str, Value] = {}
    one, other = (parse(text, known) for text in ('<<1, [a |-> "]["]>>', '{[b |-> [a |-> "]["]]}'))
    assert isinstance(one, tuple)
    assert isinstance(other, frozenset)
    [holder] = other
    assert isinstance(holder, Function)
    assert holder["b"] is one[1]
    with pytest.raises(MalformedValueError, match="position 11"):
        parse("<<[a |-> [b]]>>", known)


@given(values)
def test_equal_values_have_one_text(value: Value) -> None:
    text = unparse(value)
    assert unparse(parse(text)) == text
    assert "\n" not in text


@given(values, st.integers(0, 200), st.sampled_from(list(string.printable)))
def test_damaged_text_gives_a_value_or_says_where_it_is_damaged(
    value: Value, position: int, character: str
) -> None:
    text = unparse(value)
    damaged = text[:position] + character + text[position + 1 :]
    try:
        parse(damaged)
    except MalformedValueError as error:
        assert 0 <= error.position <= len(damaged)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # Copied from what TLC 2.18 printed.
        (r'"s\"q\\\n"', 's"q\\\n'),
        ("<<1, {2}>>", (1, frozenset({2}))),
        ('[p |-> "p", q |-> "q"]', record(p="p", q="q")),
        ("1..3", frozenset({1, 2, 3})),
        ("3..1", frozenset()),
        ("{{}, {1}}", frozenset({frozenset(), frozenset({1})})),
        ("{<<TRUE, TRUE>>}", frozenset({(True, True)})),
        ("<<>>", ()),
        ("(2 :> 3 @@ 5 :> TRUE)", Function({2: 3, 5: True})),
        ("(n1 :> {} @@ n2 :> -4)", Function({ModelValue("n1"): frozenset(), ModelValue("n2"): -4})),
        ("(1 :> 7 @@ 2 :> 8)", (7, 8)),
        ("(TRUE :> 7)", Function({True: 7})),
        ("[ a |->\n    1 ]", record(a=1)),
    ],
)
def test_what_tlc_prints_is_read(text: str, value: Value) -> None:
    parsed = parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 0, "a value"),
        ("<<1, 2", 6, ", or >>"),
        ("{1} 2", 4, "the end"),
        ("[a |-> 1, 2]", 10, "a name"),
        ("(1 :> 2 @@ 1 :> 3)", 1, "once"),
        ("[]", 1, "at least one"),
        ("SUBSET {1}", 7, "the end"),
        ("<<1, %>>", 5, "token"),
        ("1..", 3, "upper end"),
        ("1..99999999", 3, "interval"),
        (r'<<1, "a\q">>', 5, "escape"),
        ('"open', 0, "token"),
    ],
)
def test_what_is_no_value_is_refused_with_its_position(
    text: str, position: int, expected: str
) -> None:
    with pytest.raises(MalformedValueError, match=expected) as refused:
        parse(text)
    assert refused.value.position == position


def test_what_would_break_a_line_or_a_column_is_escaped() -> None:
    assert unparse('a\tb\n"\\\f\r') == r'"a\tb\n\"\\\f\r"'


def test_a_state_is_read_whole_also_when_a_value_spans_lines() -> None:
    state = parse_conjuncts("/\\ log = << [a |-> 1],\n  [a |-> 2] >>\n/\\ now = 3\n")
    assert state == {"log": (record(a=1), record(a=2)), "now": 3}
    assert parse_conjuncts("x = 1\n") == {"x": 1}


def test_a_function_of_one_to_n_is_a_sequence_and_nothing_else() -> None:
    assert function({2: "b", 1: "a"}) == ("a", "b")
    with pytest.raises(ValueError, match="sequence"):
        Function({1: "a"})
