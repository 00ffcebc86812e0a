"""From words to values: every kind, every fault on one line, and no word lost."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import UsageError
from console.cli.line import read_line
from console.cli.options import options_of, takes_value
from console.cli.parser import parse, split
from console.registry.model import Argument, Command, Kind

_COMMAND = Command(
    noun="jobs",
    verb="try",
    summary="a command of the tests",
    handler="x:y",
    arguments=(
        Argument("name", "the name", kind="job", operand=True, required=True),
        Argument("rest", "the rest", operand=True, many=True),
        Argument("interval", "a duration or auto", kind="duration", choices=("auto",)),
        Argument("hours", "hours", kind="hours"),
        Argument("notice", "seconds", kind="seconds"),
        Argument("size", "bytes", kind="size"),
        Argument("rate", "bytes per second", kind="rate"),
        Argument("discount", "a fraction", kind="fraction"),
        Argument("count", "a whole number", kind="int", default="3"),
        Argument("factor", "a number", kind="float"),
        Argument("mode", "a choice", kind="choice", choices=("one", "two")),
        Argument("from-checkpoint", "a checkpoint", kind="checkpoint"),
        Argument("files", "paths", kind="path", many=True),
        Argument("i-know-it-is-dead", "the name", kind="job"),
        Argument("force", "a flag", kind="flag"),
        Argument("now", "a flag", kind="flag"),
        Argument("to", "a node", kind="node"),
    ),
    listing=True,
)


def read(*line: str, **environ: str) -> dict[str, Any]:
    return parse(_COMMAND, line, environ)


def fault(*line: str, **environ: str) -> str:
    with pytest.raises(UsageError) as caught:
        read(*line, **environ)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_every_kind_becomes_its_unit() -> None:
    values = read(
        "j", "--interval", "1h30m", "--hours", "24", "--notice", "120", "--size", "2GiB", "--rate", "10MB/s",
        "--discount", "70%", "--factor", "1.5", "--mode", "two", "--from-checkpoint", "2.14", "--now",
    )  # fmt: skip
    assert values["interval"] == 5400.0
    assert (values["hours"], values["notice"], values["size"], values["rate"]) == (24.0, 120.0, 2 << 30, 1e7)
    assert (values["discount"], values["factor"], values["mode"]) == (0.7, 1.5, "two")
    assert (values["from_checkpoint"], values["now"], values["count"]) == ("2.14", True, 3)
    assert isinstance(values["size"], int)


def test_what_is_absent_is_none_false_or_empty() -> None:
    values = read("j")
    assert values["interval"] is None
    assert values["now"] is False
    assert values["files"] == []
    assert values["rest"] == []
    assert values["count"] == 3


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (["--interval", "10"], ("--interval", "'10'", "10m", "or auto")),
        (["--hours", "many"], ("--hours", "'many'", "1h30m")),
        (["--size", "3 apples"], ("--size", "670GiB")),
        (["--rate", "10"], ("--rate", "10GB/s")),
        (["--discount", "nan"], ("--discount", "'nan'", "70%")),
        (["--factor", "inf"], ("--factor", "'inf'")),
        (["--count", "1.5"], ("--count is '1.5'", "whole number")),
        (["--count", "٣"], ("--count", "whole number")),
        (["--mode", "three"], ("--mode is 'three'", "one, two")),
        (["--from-checkpoint", "x"], ("--from-checkpoint", "<epoch>.<seq>")),
        (["--to", ""], ("--to is ''", "node expected")),
        (["--to"], ("option --to", "expected one argument")),
        (["--now=1"], ("option --now", "ignored explicit argument")),
        (["--intervall", "auto"], ("no option '--intervall'", "did you mean '--interval'?")),
        (["--hour", "3"], ("no option '--hour'", "'--hours'")),
        (["-z"], ("no option '-z'",)),
    ],
)
def test_a_fault_names_option_value_and_form(line: list[str], parts: tuple[str, ...]) -> None:
    message = fault("j", *line)
    for part in parts:
        assert part in message


def test_two_dashes_alone_make_no_option_alike() -> None:
    assert "did you mean" not in fault("j", "--bogus")


def test_operands() -> None:
    assert "needs NAME" in fault()
    assert read("j", "--now", "a=1", "--to", "n", "b=2")["rest"] == ["a=1", "b=2"]
    single = Command("x", "", "s", "a:b", arguments=(Argument("file", "f", operand=True, required=True),))
    assert parse(single, ("-",), {})["file"] == "-"
    with pytest.raises(UsageError, match="'b' is one word too many"):
        parse(single, ("a", "b"), {})


def test_after_two_dashes_nothing_is_an_option() -> None:
    values = read("j", "--to", "n", "--", "python", "train.py", "--now", "-x", "--", "y")
    assert values["rest"] == ["python", "train.py", "--now", "-x", "--", "y"]
    assert values["now"] is False
    assert "needs NAME" in fault("--", "python", "train.py")


def test_names_and_urls_are_checked_where_they_are_typed() -> None:
    assert "NAME: job name '../x' is not allowed" in fault("../x")
    store = Command("x", "", "s", "a:b", arguments=(Argument("store", "h", kind="url"),))
    assert parse(store, ("--store", "file:///s"), {})["store"] == "file:///s"
    with pytest.raises(UsageError, match="--store: 'bucket' is no store URL"):
        parse(store, ("--store", "bucket"), {})


def test_negative_values_belong_to_their_option() -> None:
    assert read("j", "--discount", "-5%")["discount"] == -0.05
    assert read("j", "--factor", "-.5")["factor"] == -0.5
    assert read("j", "-4")["rest"] == ["-4"]


def test_variables_stand_for_options_but_not_for_consent() -> None:
    values = read(
        "j",
        REPRIEVE_INTERVAL="10m",
        REPRIEVE_FILES="/a,/b",
        REPRIEVE_NOW="1",
        REPRIEVE_FROM_CHECKPOINT="1.2",
        REPRIEVE_YES="1",
        REPRIEVE_CONFIRM="j",
        REPRIEVE_FORCE="1",
        REPRIEVE_I_KNOW_IT_IS_DEAD="j",
        REPRIEVE_COUNT="",
        REPRIEVE_DRY_RUN="1",
    )
    assert (values["interval"], values["files"], values["now"]) == (600.0, ["/a", "/b"], True)
    assert (values["from_checkpoint"], values["count"], values["dry_run"]) == ("1.2", 3, True)
    assert (values["yes"], values["confirm"], values["force"]) == (False, None, False)
    assert values["i_know_it_is_dead"] is None
    assert read("j", "--interval", "auto", REPRIEVE_INTERVAL="10m")["interval"] == "auto"
    assert "REPRIEVE_INTERVAL: '10'" in fault("j", REPRIEVE_INTERVAL="10")
    assert "REPRIEVE_NOW is 'perhaps'" in fault("j", REPRIEVE_NOW="perhaps")


@given(st.lists(st.text(max_size=12), max_size=5))
def test_any_words_give_values_or_one_line(words: list[str]) -> None:
    try:
        values = parse(_COMMAND, tuple(words), {})
    except UsageError as error:
        assert "\n" not in error.message
        assert error.message.isprintable()
    else:
        assert values["name"] in words


@given(
    st.lists(st.text("abc=%", min_size=1, max_size=4), max_size=3),
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5), max_size=3
    ),
)
def test_no_word_is_lost(before: list[str], after: list[str]) -> None:
    assert parse(_COMMAND, ("j", *before, "--", *after), {})["rest"] == [*before, *after]


class Reference(argparse.ArgumentParser):
    """The library that people know, with the options of the tests' command."""

    def __init__(self) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        for option in options_of(_COMMAND):
            spellings = [f"--{option.name}", *([f"-{option.short}"] if option.short else [])]
            if option.name == "verbose":
                self.add_argument(*spellings, dest=option.name, action="count")
            elif takes_value(option):
                action = "append" if option.many else "store"
                self.add_argument(*spellings, dest=option.name, action=action)
            else:
                self.add_argument(*spellings, dest=option.name, action="store_true", default=None)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


_WORDS = ["--now", "--now=1", "--to", "--to=", "--to=a=b", "--files", "--files=x", "-o", "-ojson", "-o=json", "-q", "-qv", "-vv",
          "-qojson", "-qz", "-q=1", "-z", "--no", "--hour", "--output", "json", "", "-", "-5", "-.5", "a b", "-a b", "-o ", "x=y"]  # fmt: skip


@given(st.lists(st.sampled_from(_WORDS), max_size=6))
def test_a_line_is_read_as_argparse_reads_it(line: list[str]) -> None:
    try:
        known, others = Reference().parse_known_args(line)
    except UsageError as error:
        with pytest.raises(UsageError) as caught:
            read_line(line, options_of(_COMMAND), "x")
        assert caught.value.message.rpartition(": ")[2] == error.message.rpartition(": ")[2]
    else:
        expected = {name: value for name, value in vars(known).items() if value is not None}
        assert read_line(line, options_of(_COMMAND), "x") == (expected, others)


def kinds() -> tuple[Kind, ...]:
    return ("duration", "hours", "seconds", "size", "rate", "fraction", "int", "float", "checkpoint")


@pytest.mark.parametrize("kind", kinds())
@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "\x1b[31m", "1\n2", "a" * 5000, "∞"])
def test_hostile_values_are_refused_on_one_short_line(kind: Kind, text: str) -> None:
    command = Command("x", "", "s", "a:b", arguments=(Argument("v", "h", kind=kind),))
    with pytest.raises(UsageError) as caught:
        parse(command, (f"--v={text}",), {})
    assert caught.value.message.isprintable()
    assert len(caught.value.message) <= 600
    assert "--v" in caught.value.message


@pytest.mark.parametrize(
    ("line", "noun", "verb", "rest"),
    [
        ("jobs list", "jobs", "list", ()),
        (
            "--context practice -o json jobs save j -q",
            "jobs",
            "save",
            ("--context", "practice", "-o", "json", "j", "-q"),
        ),
        ("jobs -o json list", "jobs", "list", ("-o", "json")),
        ("--context=x jobs", "jobs", None, ("--context=x",)),
        ("watch --once", "watch", "", ("--once",)),
        ("report --job jobs", "report", "", ("--job", "jobs")),
        ("help jobs restore", "help", "", ("jobs", "restore")),
        ("jobs run j -- jobs list --help", "jobs", "run", ("j", "--", "jobs", "list", "--help")),
        ("-q", "", None, ("-q",)),
    ],
)
def test_noun_and_verb_are_found_among_the_options(
    line: str, noun: str, verb: str | None, rest: tuple[str, ...]
) -> None:
    typed = split(line.split())
    assert (typed.noun, typed.verb, typed.rest, typed.help) == (noun, verb, rest, False)


def test_help_is_seen_anywhere_before_two_dashes() -> None:
    assert split(["jobs", "save", "j", "-h"]).help
    assert split(["--help", "jobs"]).help


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("jbos list", "'jbos' is no command of reprieve; did you mean 'jobs'?"),
        ("jobs lsit", "'lsit' is no command of reprieve jobs; did you mean 'list'?"),
        ("jobs xyzzy", "known here: doctor, list"),
    ],
)
def test_unknown_words_get_the_nearest(line: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        split(line.split())
    assert said in caught.value.message


_VERIFY = Command(
    noun="checkpoints",
    verb="try",
    summary="as `checkpoints verify`",
    handler="x:y",
    arguments=(
        Argument("name", "the name", kind="job", operand=True, required=True),
        Argument("checkpoint", "which", kind="checkpoint", operand=True),
    ),
)


@pytest.mark.parametrize(
    "line", [("train", "1.14"), ("train/1.14",), ("train", "train/1.14"), ("train/1.14", "1.14")]
)
def test_a_checkpoint_is_taken_as_listings_name_it(line: tuple[str, ...]) -> None:
    values = parse(_VERIFY, line, {})
    assert (values["name"], values["checkpoint"]) == ("train", "1.14")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("train", "other/1.14"), "other/1.14 is not one of job train"),
        (("train/1.14", "1.15"), "two checkpoints are named"),
        (("train/x",), "x"),
        (("train/1.2/3",), "1.2/3"),
        (("/1.2",), "job"),
        (("train", "/1.2"), "job"),
    ],
)
def test_a_checkpoint_of_another_job_is_refused(line: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse(_VERIFY, line, {})


def test_without_a_checkpoint_there_is_none() -> None:
    assert parse(_VERIFY, ("train",), {})["checkpoint"] is None
    values = read("j", "--from-checkpoint", "j/2.1")
    assert values["from_checkpoint"] == "2.1"
