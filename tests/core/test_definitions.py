"""`lycosa.core.dataclass` and `patterns` behave like the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
from dataclasses import field

import pytest

from lycosa.core.dataclass import dataclass
from lycosa.core.patterns import lazy_pattern


@dataclass(slots=True, frozen=True)
class Pair:
    left: int
    right: str = "r"


@dataclass(slots=True, frozen=True)
class Triple(Pair):
    third: list[int] = field(default_factory=list, compare=False, repr=False)


@dataclass(slots=True, frozen=True)
class Single:
    value: object


@dataclass(slots=True, frozen=True)
class Empty:
    pass


@dataclass(slots=True)
class Mutable:
    next: object = None


@dataclass(frozen=True)
class CaseInsensitive:
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CaseInsensitive) and other.name.lower() == self.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())

    def __repr__(self) -> str:
        return f"<{self.name}>"


EXAMPLES = [
    Pair(1),
    Pair(1, "x"),
    Triple(1),
    Triple(1, "r", [4]),
    Single(2),
    Single((2,)),
    Empty(),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=repr)
def test_class_behaves_like_a_standard_dataclass(example: Pair) -> None:
    fields = [
        (each.name, object, field(compare=each.compare, repr=each.repr))
        for each in dataclasses.fields(example)
    ]
    name = type(example).__name__
    standard = dataclasses.make_dataclass(name, fields, frozen=True, slots=True)
    values = {name: getattr(example, name) for name, _, _ in fields}
    assert repr(example) == repr(standard(**values))
    assert hash(example) == hash(standard(**values))
    assert dataclasses.asdict(example) == values
    assert not hasattr(example, "__dict__")
    for other in EXAMPLES:
        same = type(other) is type(example) and standard(**values) == standard(
            **{name: getattr(other, name) for name in values}
        )
        assert (example == other, example != other) == (same, not same)


@pytest.mark.parametrize("example", [*EXAMPLES, Mutable(3), CaseInsensitive("a")], ids=repr)
def test_objects_can_be_copied_and_pickled(example: Pair) -> None:
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        assert pickle.loads(pickle.dumps(example, protocol)) == example
    assert copy.deepcopy(example) == copy.copy(example) == dataclasses.replace(example) == example


def test_objects_of_different_classes_are_not_equal() -> None:
    assert Pair(1) != Triple(1)
    assert Pair(1).__eq__(1) is NotImplemented
    not_a_number = float("nan")
    # identical values are equal, as in a tuple
    assert Single(not_a_number) == Single(not_a_number)


def test_mutable_objects_are_unhashable_and_may_be_recursive() -> None:
    loop = Mutable()
    loop.next = loop
    assert repr(loop) == "Mutable(next=...)"
    with pytest.raises(TypeError, match="unhashable"):
        hash(loop)


def test_methods_of_the_class_are_not_replaced() -> None:
    assert {CaseInsensitive("A"), CaseInsensitive("a")} == {CaseInsensitive("a")}
    assert repr(CaseInsensitive("A")) == "<A>"


def test_lazy_pattern_is_compiled_on_first_use() -> None:
    invalid = lazy_pattern("(")
    with pytest.raises(re.error):
        invalid.search("")
    words = lazy_pattern(r"[a-z]+", re.IGNORECASE)
    assert (words.findall("ab C"), words.sub("x", "ab C")) == (["ab", "C"], "x x")
    assert (words.pattern, words.flags) == ("[a-z]+", re.compile("[a-z]+", re.IGNORECASE).flags)
    assert lazy_pattern(rb"\d").split(b"a1b") == [b"a", b"b"]
