"""Every statement of the requirement has a test that proves it, or says in a table what it waits for.

These tests read the checkout itself, so that no folder of tests can be forgotten. To mark a test: CONTRIBUTING.md.
"""

import ast
import collections
import pathlib
import re

import pytest

from tileops.docs import requirement_page
from tileops.docs.requirement_page import MarkerError, Open, Proof
from tileops.manifest.reading import loader

# Runfiles are links to the files of the checkout.
CHECKOUT = pathlib.Path("docs/requirement.tsv").resolve().parents[1]
STATEMENTS = requirement_page.read_statements(CHECKOUT / "docs" / "requirement.tsv")
OPEN = requirement_page.read_open(CHECKOUT / "docs" / "requirement_open.tsv")
FILES = sorted(
    str(path.relative_to(CHECKOUT))
    for pattern in ("*_test.py", "BUILD.bazel")
    for path in (CHECKOUT / "tests").glob(f"*/{pattern}")
)
PROOFS = [
    proof for name in FILES for proof in requirement_page.proofs(name, (CHECKOUT / name).read_text(encoding="utf-8"))
]
ENTRIES = loader.load(loader.spec_files(str(CHECKOUT / "manifest" / "spec"))).entries
IMPLEMENTED = {name for name, entry in ENTRIES.items() if entry.status == "implemented"}

# More than this is a list of tests that have to do with a statement, not of those that prove it.
MOST_TESTS = 3


def faults(statements, proofs, open_rows, implemented):
    """What is wrong with the markers and the table of open statements, a line each."""
    found = [f"{one.place}: there is no statement {one.statement}" for one in proofs if one.statement not in statements]
    tests = collections.Counter(statement for statement, _ in {(one.statement, one.test) for one in proofs})
    found += [f"{one}: {count} tests: which prove it?" for one, count in tests.items() if count > MOST_TESTS]
    rows = collections.Counter(one.statement for one in open_rows)
    found += [f"{one}: is proven by no test, and not open" for one in statements if not tests[one] and not rows[one]]
    found += [f"{one}: has {count} rows in the table of open statements" for one, count in rows.items() if count > 1]
    for one in open_rows:
        if one.statement not in statements:
            found.append(f"{one.statement}: is open, and there is no such statement")
        if tests[one.statement]:
            found.append(f"{one.statement}: is open, and a test proves it: delete its row")
        if not one.reason.strip():
            found.append(f"{one.statement}: is open without a reason")
        if not all(re.fullmatch(r"[A-Z]\w*Op", op) for op in one.ops):
            found.append(f"{one.statement}: waits for {' '.join(one.ops)}: names of ops are wanted, or gap")
        elif one.ops and implemented.issuperset(one.ops):
            found.append(f"{one.statement}: waits for {', '.join(one.ops)}, which are implemented: mark its tests")
    return found


def test_every_statement_is_proven_or_waits_for_what_is_not_there_yet():
    assert len(STATEMENTS) == 212 and all(STATEMENTS.values())
    assert faults(STATEMENTS, PROOFS, OPEN, IMPLEMENTED) == []


TWO = {"1.1": "one", "1.2": "two"}
FIRST, SECOND = (Proof(statement, f"tests/a_test.py::test_{statement}", "tests/a_test.py:3") for statement in TWO)


@pytest.mark.parametrize(
    ("proofs", "open_rows", "fault"),
    [
        ([FIRST], [], "1.2: is proven by no test, and not open"),
        ([FIRST, SECOND, Proof("1.3", "t", "a_test.py:7")], [], "a_test.py:7: there is no statement 1.3"),
        ([FIRST, SECOND], [Open("1.2", (), "late")], "1.2: is open, and a test proves it: delete its row"),
        (
            [FIRST],
            [Open("1.2", ("AddFwdOp",), "late")],
            "1.2: waits for AddFwdOp, which are implemented: mark its tests",
        ),
        ([FIRST], [Open("1.2", ("soon",), "late")], "1.2: waits for soon: names of ops are wanted, or gap"),
        ([FIRST], [Open("1.2", (), " ")], "1.2: is open without a reason"),
        ([FIRST], [Open("1.2", (), "late")] * 2, "1.2: has 2 rows in the table of open statements"),
        ([FIRST, SECOND], [Open("1.3", (), "late")], "1.3: is open, and there is no such statement"),
        ([SECOND, *(Proof("1.1", f"t{at}", "") for at in range(4))], [], "1.1: 4 tests: which prove it?"),
    ],
)
def test_a_planted_fault_is_found(proofs, open_rows, fault):
    assert faults(TWO, proofs, open_rows, {"AddFwdOp"}) == [fault]


@pytest.mark.parametrize("ops", [(), ("AddFwdOp", "LaterFwdOp")])
def test_what_waits_for_an_op_of_which_there_is_no_entry_may_stay_open(ops):
    assert faults(TWO, [FIRST, FIRST], [Open("1.2", ops, "late")], {"AddFwdOp"}) == []


def test_every_marked_module_is_run_by_a_target():
    for name in {proof.test.partition("::")[0] for proof in PROOFS if "::" in proof.test}:
        path = pathlib.PurePosixPath(name)
        build = ast.parse((CHECKOUT / path.parent / "BUILD.bazel").read_text(encoding="utf-8"))
        srcs = {
            source.value
            for node in ast.walk(build)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest_test"
            for keyword in node.keywords
            if keyword.arg == "srcs"
            for source in ast.walk(keyword.value)
            if isinstance(source, ast.Constant)
        }
        assert path.name in srcs, name


MODULE = """
import pytest
MARK = pytest.mark.nightly

@pytest.mark.requirement("1.1", "1.2")
@pytest.mark.parametrize("x", [1])
def test_a(x): pass

@pytest.mark.requirement("1.3")
class TestB:
    @pytest.mark.requirement("1.4")
    def test_c(self): pass
"""
RULES = """
forbidden_deps(name = "layer_test", tags = ["external", "requirement:1.1"], targets = [])
"""


def test_markers_are_read_with_their_places():
    assert requirement_page.proofs("tests/x/a_test.py", MODULE) == [
        Proof("1.1", "tests/x/a_test.py::test_a", "tests/x/a_test.py:5"),
        Proof("1.2", "tests/x/a_test.py::test_a", "tests/x/a_test.py:5"),
        Proof("1.3", "tests/x/a_test.py::TestB", "tests/x/a_test.py:9"),
        Proof("1.4", "tests/x/a_test.py::TestB::test_c", "tests/x/a_test.py:11"),
    ]
    assert requirement_page.proofs("tests/x/BUILD.bazel", RULES) == [
        Proof("1.1", "//tests/x:layer_test", "tests/x/BUILD.bazel:2")
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "a_test.py",
            '@pytest.mark.requirement("1.1")\ndef helper(): pass',
            ":1: pytest.mark.requirement is no decorator",
        ),
        (
            "a_test.py",
            '@pytest.mark.requirement("1.1")\nclass Helper:\n    def test_a(self): pass',
            ":1: .* no decorator",
        ),
        ("a_test.py", '@pytest.mark.requirement("1.1")\nclass TestNothing: pass', ":1: .* is no decorator of a test"),
        (
            "a_test.py",
            'def test_a():\n    @pytest.mark.requirement("1.1")\n    def test_b(): pass',
            ":2: .* no decorator",
        ),
        ("a_test.py", 'pytestmark = pytest.mark.requirement("1.1")', ":1: .* is no decorator of a test"),
        ("a_test.py", "@pytest.mark.requirement\ndef test_a(): pass", ":1: .* is no decorator of a test"),
        ("a_test.py", "@pytest.mark.requirement()\ndef test_a(): pass", ":1: .* takes ids of statements as text"),
        ("a_test.py", "@pytest.mark.requirement(ID)\ndef test_a(): pass", ":1: .* takes ids of statements as text"),
        ("a_test.py", '@pytest.mark.requirement("1.1", *MORE)\ndef test_a(): pass', ":1: .* takes ids"),
        (
            "a_test.py",
            '@pytest.mark.requirement("1.1")\n@pytest.mark.nightly\ndef test_a(): pass',
            ":1: test_a runs at night alone",
        ),
        (
            "BUILD.bazel",
            'py_library(name = "a", tags = ["requirement:1.1"])',
            ":1: 'requirement:1.1' is no tag of a test",
        ),
        ("BUILD.bazel", 'TAGS = ["requirement:1.1"]', ":1: 'requirement:1.1' is no tag of a test rule"),
        (
            "BUILD.bazel",
            'py_test(name = "a_test", tags = ["requirement:1.1", "manual"])',
            ":1: .* runs on every change",
        ),
    ],
)
def test_a_marker_that_is_on_no_test_is_refused_with_its_place(name, text, said):
    with pytest.raises(MarkerError, match=f"^tests/x/{name}{said}"):
        requirement_page.proofs(f"tests/x/{name}", text)


def test_a_page_has_a_table_per_section_with_tests_or_what_is_missing():
    statements = {"0.1": "a | b", "1.2.3": "two", "1.2.4": "three", "4.4.1a": "four"}
    found = [Proof("0.1", "t::a", ""), Proof("0.1", "t::b", ""), Proof("0.1", "t::a", ""), Proof("1.2.3", "t::a", "")]
    open_rows = [Open("1.2.4", ("AddFwdOp",), "sums"), Open("4.4.1a", (), "later")]
    text = requirement_page.page(statements, found, open_rows)
    assert "2 of 4 statements are proven by 2 tests; 2 are open." in text
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["0", "1.2", "4.4"]
    assert "| 0.1 | a \\| b | `t::a`<br>`t::b` |" in text
    assert "| 1.2.4 | three | open: waits for AddFwdOp: sums |" in text and "| four | open: later |" in text


def test_the_page_that_the_build_makes_reads_every_folder_of_tests():
    built = pathlib.Path("docs/requirement.md")
    if not built.exists():
        pytest.skip("the page is made by Bazel alone")
    assert built.read_text(encoding="utf-8") == requirement_page.page(STATEMENTS, PROOFS, OPEN), (
        "a folder with markers lacks test_sources() in its BUILD file, or a line in //tests:sources"
    )
