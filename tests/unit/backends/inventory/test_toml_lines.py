"""Line numbers of keys: checked against texts whose layout is known because the test made it."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from backends.inventory.lines import key_lines

_NASTY = """\
# [not.a.table]
title = "a # b = c"   # x = 1
many = [
  "x = 1",  # ] no end
  "]",
]
text = '''
[nodes.fake]
y = 2
'''
basic = \"\"\"
q = "\\\"" and [z]
\"\"\"\"
"quoted.key" = 1
dotted . 'inner part' = { a = 1, b = [1, 2] }

[ nodes . "gpu.a" ]
ssh = "x"
[[array]]
k = 1
[[array]]
k = 2
last = true"""


def test_a_text_full_of_traps() -> None:
    tomllib.loads(_NASTY)
    assert key_lines(_NASTY) == {
        ("title",): 2,
        ("many",): 3,
        ("text",): 7,
        ("basic",): 11,
        ("quoted.key",): 14,
        ("dotted",): 15,
        ("dotted", "inner part"): 15,
        ("nodes",): 17,
        ("nodes", "gpu.a"): 17,
        ("nodes", "gpu.a", "ssh"): 18,
        ("array",): 19,
        ("array", "k"): 20,
        ("array", "last"): 23,
    }


_KEY = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=6)
_VALUES = st.sampled_from(
    [
        "1",
        '"#"',
        "'='",
        '["a",\n  "]", # ]\n]',
        '"""\na = 1\n[t]\n"""',
        "'''x\n'''",
        "{ a = '}' }",
        '"""a"""""',
    ]
)


def _quoted(key: str) -> str:
    return '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(
    st.dictionaries(_KEY, st.dictionaries(_KEY, _VALUES, max_size=4), min_size=1, max_size=4), st.booleans()
)
def test_every_key_is_found_on_its_line(tables: dict[str, dict[str, str]], blank: bool) -> None:
    lines: list[str] = []
    expected: dict[tuple[str, ...], int] = {}
    for table, keys in tables.items():
        lines += ["", "# comment = [1"] if blank else []
        lines.append(f"[{_quoted(table)}]")
        expected[table,] = len(lines)
        for key, value in keys.items():
            lines.append(f"  {_quoted(key)}= {value} # tail")
            expected[table, key] = len(lines)
            lines[-1:] = lines[-1].split("\n")
    text = "\n".join(lines)
    parsed: dict[str, Any] = tomllib.loads(text)
    assert parsed.keys() == tables.keys()
    assert key_lines(text) == expected


@given(st.text(alphabet="[]{}\"'#=.\n ab\\", max_size=60))
def test_broken_text_never_raises(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for line in key_lines(text).values())
