"""Precedence of settings, their origin, and what each fault says."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from backends.errors import UsageError
from console.config.model import Settings, Value
from console.config.resolve import resolve

_SOURCES = ("flag", "environment", "context", "user", "system")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def settle(home: Path, flags: dict[str, Value] | None = None, **environ: str) -> Settings:
    return resolve(flags or {}, {"XDG_CONFIG_DIRS": str(home / "etc"), **environ})


@pytest.mark.parametrize("given", [c for n in range(6) for c in combinations(_SOURCES, n)], ids="-".join)
def test_every_combination_of_sources_has_the_highest_win(home: Path, given: tuple[str, ...]) -> None:
    colours = dict(zip(_SOURCES, ("always", "never", "always", "never", "always"), strict=True))
    context = (
        f'[contexts.prod]\ncolor = "{colours["context"]}"\n' if "context" in given else "[contexts.prod]\n"
    )
    user = write(
        home / "config" / "reprieve" / "config.toml",
        'context = "prod"\n' + (f'color = "{colours["user"]}"\n' if "user" in given else "") + context,
    )
    system = home / "etc" / "reprieve" / "config.toml"
    if "system" in given:
        write(system, f'\n\ncolor = "{colours["system"]}"\n')
    flags: dict[str, Value] = {"color": colours["flag"]} if "flag" in given else {}
    environ = {"REPRIEVE_COLOR": colours["environment"]} if "environment" in given else {}
    settings = settle(home, flags, **environ)
    winner = next((source for source in _SOURCES if source in given), None)
    origins = {
        "flag": "--color",
        "environment": "REPRIEVE_COLOR",
        "context": f"context prod in {user}:{3 + ('user' in given) - 0}",
        "user": f"{user}:2",
        "system": f"{system}:3",
        None: "default",
    }
    assert settings.text("color") == (colours[winner] if winner else "auto")
    assert settings.origins["color"] == origins[winner]


def test_without_any_file_the_defaults_hold(home: Path) -> None:
    settings = settle(home)
    assert settings.text("context") == "default"
    assert settings.text("fleet") is None
    assert not settings.flag("read_only")
    assert settings.origins["fleet"] == "not set"
    assert set(settings.files.values()) == {False}


def test_paths_are_taken_from_where_they_are_written(home: Path) -> None:
    write(home / "config" / "reprieve" / "config.toml", '[contexts.a]\nfleet = "fleet.toml"\n')
    settings = settle(home, REPRIEVE_CONTEXT="a")
    assert settings.text("fleet") == str(home / "config" / "reprieve" / "fleet.toml")


def test_contexts_of_user_and_system_are_one_list(home: Path) -> None:
    write(home / "config" / "reprieve" / "config.toml", "[contexts.mine]\nread_only = true\n")
    write(
        home / "etc" / "reprieve" / "config.toml", '[contexts.mine]\nstore = "file:///s"\n[contexts.site]\n'
    )
    settings = settle(home, {"context": "mine"})
    assert settings.contexts == ("default", "practice", "mine", "site")
    assert settings.flag("read_only")
    assert settings.text("store") == "file:///s"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('colour = "auto"', "config.toml:1: unknown key 'colour'; did you mean 'color'?"),
        (
            '[contexts.p]\n\nflet = "x"',
            "config.toml:3: unknown key 'flet' in [contexts.p]; did you mean 'fleet'?",
        ),
        ('[contexts.p]\ncontext = "x"', "config.toml:2: unknown key 'context'"),
        ("[contexts.p]\nread_only = 1", "config.toml:2: read_only is 1; true or false expected"),
        ('color = "blue"', "config.toml:1: color is 'blue'; one of auto, always, never expected"),
        ("store = 3", "config.toml:1: store is 3; text expected"),
        ("[contexts.practice]\n", "context 'practice' is built in"),
        ('[contexts."a b"]\n', "config.toml:1: context name 'a b' is not allowed"),
        ("contexts = 3", "config.toml:1: [contexts] must be a table"),
        ("contexts", "not the TOML expected"),
    ],
)
def test_each_fault_names_file_and_line(home: Path, text: str, message: str) -> None:
    write(home / "config" / "reprieve" / "config.toml", text)
    with pytest.raises(UsageError) as caught:
        settle(home)
    assert message in caught.value.message


def test_values_of_the_environment_are_checked(home: Path) -> None:
    assert settle(home, REPRIEVE_READ_ONLY="1", REPRIEVE_QUIET="").flag("read_only")
    assert not settle(home, REPRIEVE_READ_ONLY="0").flag("read_only")
    with pytest.raises(UsageError, match="REPRIEVE_READ_ONLY is 'maybe'; 1 or 0 expected"):
        settle(home, REPRIEVE_READ_ONLY="maybe")
    with pytest.raises(UsageError, match="REPRIEVE_OUTPUT is 'xml'; one of table"):
        settle(home, REPRIEVE_OUTPUT="xml")


def test_an_unknown_context_gets_the_nearest(home: Path) -> None:
    with pytest.raises(
        UsageError, match=r"context 'practise' \(--context\) is not known; did you mean 'practice'\?"
    ):
        settle(home, {"context": "practise"})


def test_a_named_file_must_exist_and_replaces_the_users(home: Path) -> None:
    write(home / "config" / "reprieve" / "config.toml", 'color = "never"\n')
    other = write(home / "other.toml", 'color = "always"\n')
    assert resolve({}, {}, str(other)).text("color") == "always"
    assert settle(home, REPRIEVE_CONFIG=str(other)).text("color") == "always"
    with pytest.raises(UsageError, match=r"configuration file .*none\.toml does not exist"):
        resolve({}, {}, str(home / "none.toml"))
