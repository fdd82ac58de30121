"""C++ names made short, and those of the standard library recognised."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offheap import cxx_names


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("os::malloc(unsigned long, MEMFLAGS)", "os::malloc"),
        ("Foo::get(int) const", "Foo::get"),
        ("(anonymous namespace)::work(int)", "(anonymous namespace)::work"),
        ("(anonymous namespace)::work", "(anonymous namespace)::work"),
        ("Call::operator()(int)", "Call::operator()"),
        ("inflateInit2_", "inflateInit2_"),
        ("operator new(unsigned long)", "operator new"),
        ("std::map<int, std::less<int> >::insert(int)", "std::map<int, std::less<int> >::insert"),
    ],
)
def test_native_names_lose_their_parameters(name: str, short: str) -> None:
    assert cxx_names.short(name) == short


@given(st.text(alphabet="ab<>():, &operator", max_size=200))
def test_any_name_is_shortened_to_something(name: str) -> None:
    short = cxx_names.short(name)
    assert len(short) <= max(len(name), 73)
    assert bool(short) == bool(name)


NODE = "std::__1::__tree_node<std::__1::__value_type<int, observer::Observation>, void*>"


@pytest.mark.parametrize(
    "name",
    [
        "std::vector<Foo, std::allocator<Foo> >::push_back(Foo const&)",
        f"{NODE}* std::__1::__libcpp_allocate[abi:ne220108]<{NODE}>(unsigned long)",
        "decltype ((std::declval<Foo>())(std::declval<int>())) std::__1::__try_key[abi:x]<int>(Foo&&)",
        "_ZNSt3__125__try_key_extraction_implB9nie220108IiNS_4pairE",
        "__gnu_cxx::new_allocator<int>::allocate(unsigned long)",
    ],
)
def test_the_standard_library_is_known(name: str) -> None:
    assert cxx_names.is_standard(name)


@pytest.mark.parametrize(
    "name",
    [
        "observer::remember(std::map<int, Foo>&, int)",
        "std::string app::name(int)",
        "Pool<std::string>::take()",
        "inflateInit2_",
        "_ZN3app4workEv",
        "standard::work()",
    ],
)
def test_functions_that_only_use_it_are_not_it(name: str) -> None:
    assert not cxx_names.is_standard(name)


@given(st.text(max_size=100))
def test_any_text_is_a_name(name: str) -> None:
    cxx_names.is_standard(name)
    assert len(cxx_names.short(name)) <= max(len(name), 73)
