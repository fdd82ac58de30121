"""Short forms of C++ names, and recognition of the standard library's names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offheap.analysis.stacks import cxx_names


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


TREE = (
    "std::__1::__tree<std::__1::__value_type<int, observer::Observation>, "
    "std::__1::__map_value_compare<int, std::__1::pair<int const, observer::Observation>, "
    "std::__1::less<int> >, "
    "std::__1::allocator<std::__1::pair<int const, observer::Observation> > >"
)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (f"{TREE}::__emplace_unique[abi:nie220108]<int>(int const&)", "std::__tree<…>::__emplace_unique<…>"),
        (
            f"std::__1::unique_ptr<{TREE}> {TREE}::__construct_node<int>()",
            "std::__tree<…>::__construct_node<…>",
        ),
        (
            f"{TREE}::__emplace[abi:x]<int>(int&&)::{{lambda(int const&)#1}}::operator()(int const&) const",
            "std::__tree<…>::__emplace<…>::{lambda#1}::operator()",
        ),
        (
            f"decltype ((std::declval<{TREE}>())()) std::__1::__try_key[abi:x]<int>({TREE}&&)",
            "std::__try_key<…>",
        ),
        (
            f"{TREE}::operator std::__1::__wrap_iter<int>() const",
            "std::__tree<…>::operator std::__wrap_iter<…>",
        ),
        ("std::map<int, std::__cxx11::string>::find(int)", "std::map<int, std::string>::find"),
        ("_ZNSt3__125__try_key_extraction_implB9nie220108IiNS_4pairE", "std::__try_key_extraction_impl"),
        ("_ZNK3app4Pool4takeIiEEvv", "app::Pool::take"),
        ("_ZSt4sortB3abiv", "std::sort"),
        ("_ZN99999app", "_ZN99999app"),
        ("_Znot a mangled name", "_Znot a mangled name"),
    ],
)
def test_long_and_mangled_names_become_readable(name: str, short: str) -> None:
    assert cxx_names.short(name) == short


@given(st.text(alphabet="_ZNStKB0123456789abcI", max_size=60).map("_Z".__add__))
def test_any_mangled_name_is_read_as_far_as_it_goes(name: str) -> None:
    assert 0 < len(cxx_names.short(name)) <= max(len(name) + 2, 73)


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
