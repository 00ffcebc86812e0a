"""Addresses, ssh_config and the hops that come of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import UsageError
from backends.nodes.address import Target, check_host, is_address, join, parse_target
from backends.nodes.route import Hop, route_to
from backends.nodes.sshconfig import read_lines, settings_for
from backends.records.node import Node


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("gpu-a", Target("gpu-a")),
        ("ubuntu@10.0.0.4", Target("10.0.0.4", "ubuntu")),
        ("ubuntu@10.0.0.4:2222", Target("10.0.0.4", "ubuntu", 2222)),
        ("host:22", Target("host", None, 22)),
        ("2001:db8::7", Target("2001:db8::7")),
        ("root@2001:db8::7", Target("2001:db8::7", "root")),
        ("root@[2001:db8::7]:2200", Target("2001:db8::7", "root", 2200)),
        ("[::1]", Target("::1")),
        ("me@corp.example@gate", Target("gate", "me@corp.example")),
    ],
)
def test_forms_of_an_address(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    "text",
    ["", "@host", "-oProxyCommand=id@h", "a b", "h:0", "h:65536", "h:1:2", "h:٣", "[h]:1", "[::1]x", "[::1]:", "u@", "u ser@h",
     "$(id)@h", "aws-ssm:i-1", "a/b", "h:-1", "::1]:22", "fe80::1%", "10.0.0.1%eth0"],
)  # fmt: skip
def test_addresses_that_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_target(text)


@given(st.text(max_size=40))
def test_a_host_that_passes_holds_nothing_a_shell_reads(text: str) -> None:
    try:
        host = check_host(text)
    except UsageError:
        return
    assert not set(host) & set(" \t\n\r\0'\"\\$`;&|<>(){}[]*?!#~/@=,")
    assert not host.startswith("-")


@given(st.text(max_size=60))
def test_parsing_an_address_never_fails_otherwise(text: str) -> None:
    try:
        target = parse_target(text)
    except UsageError:
        return
    if not is_address(target.host):
        again = f"{target.user}@{target.host}" if target.user else target.host
        assert parse_target(again + (f":{target.port}" if target.port else "")) == target


def test_join_brackets_only_where_needed() -> None:
    assert [join("h", 22), join("h", 2), join("::1", 22), join("::1", 2)] == ["h", "h:2", "::1", "[::1]:2"]


def hops(config: Path, text: str, ssh: str = "n1", *, identity_file: str | None = None) -> tuple[Hop, ...]:
    config.write_text(text)
    return route_to(Node(name="n", ssh=ssh, identity_file=identity_file), config).hops


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config"


def test_first_value_wins_and_identities_add_up(config: Path) -> None:
    text = "Host n1\n Port 1\n IdentityFile /a\nHost *\n Port 2\n User w\n IdentityFile /b/%h-%r\n IdentityFile none\n"
    (hop,) = hops(config, text)
    assert hop == Hop("n1", 1, "w", ("/a", "/b/n1-w"))
    (hop,) = hops(config, text, "me@n1:9")
    assert (hop.user, hop.port) == ("me", 9)


def test_identity_of_the_record_replaces_the_files_for_the_node_only(config: Path) -> None:
    jump, last = hops(config, "Host n1\n ProxyJump j\nHost *\n IdentityFile /b\n", identity_file="/own")
    assert (jump.identity_files, last.identity_files) == (("/b",), ("/own",))


def test_hostname_tokens_and_case_of_keywords(config: Path) -> None:
    (hop,) = hops(config, "HOST N1\n hostNAME = %h.example.org\n")
    assert hop.host == "n1.example.org"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Host n1\n ProxyCommand nc %h %p\n", r"config:2: ProxyCommand for n1 is not run; use ProxyJump"),
        ("Host n1\n HostName $(id)\n", "is not allowed"),
        ("Host n1\n HostName %C\n", "token %C is not read"),
        ("Host n1\n User -l\n", "SSH user"),
        ("Host n1\n Port 99999\n", "SSH port"),
        ("Host n1\n ProxyJump a b\n", "is not allowed"),
        ("Host n1\n ProxyJump n1\n", "goes in a circle"),
        ("Host n1\n ProxyJump a\nHost a\n ProxyJump n1\n", "goes in a circle"),
        ("???\n", "is not a line of ssh_config"),
        ("Match host\n", "needs a value"),
        ("Include config\n", "nested deeper than 16"),
    ],
)
def test_what_is_refused(config: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        hops(config, text)


def test_proxy_jump_before_proxy_command_wins(config: Path) -> None:
    assert [
        hop.host for hop in hops(config, "Host n1\n ProxyJump j\n ProxyCommand x\nHost j\n ProxyJump none\n")
    ] == ["j", "n1"]
    with pytest.raises(UsageError, match="ProxyCommand"):
        hops(config, "Host n1\n ProxyCommand x\n ProxyJump j\n")
    assert len(hops(config, "Host n1\n ProxyCommand none\n ProxyJump j\n")) == 1


def test_only_the_first_jump_brings_hops_of_its_own(config: Path) -> None:
    text = "Host n1\n ProxyJump a,b\nHost a\n ProxyJump c\nHost b\n ProxyJump d\n"
    assert [hop.host for hop in hops(config, text)] == ["c", "a", "b", "n1"]


@pytest.mark.parametrize(
    ("criteria", "applies"),
    [
        ("all", True), ("host n1", True), ("host other", False), ("!host other", True), ("originalhost n*", True),
        ("host n1 user me", False), ("final", False), ("!final", True), ('exec "true"', False), ("tagged x", False),
        ("!host n1", False), ("host n2,n1", True), ("host n*,!n1", False),
    ],
)  # fmt: skip
def test_match_criteria(config: Path, criteria: str, applies: bool) -> None:
    (hop,) = hops(config, f"Host *\n User u\nMatch {criteria}\n Port 77\n")
    assert hop.port == (77 if applies else 22)


def test_match_exec_of_another_host_is_no_note(config: Path) -> None:
    config.write_text('Match host other exec "x"\n User y\nMatch exec "z"\n Port 3\n')
    notes = settings_for(read_lines(config), "n1").notes
    assert len(notes) == 1
    assert ":3: Match exec is never run; port" in notes[0]


def test_include_is_relative_to_the_file_and_may_match_many(config: Path) -> None:
    folder = config.parent / "conf.d"
    folder.mkdir()
    (folder / "1.conf").write_text("Host n1\n Port 5\n")
    (folder / "2.conf").write_text("Host n1\n Port 6\n User two\n")
    (hop,) = hops(config, "Include conf.d/*.conf absent\n")
    assert (hop.port, hop.user) == (5, "two")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_others_may_write_is_refused(config: Path, mode: int) -> None:
    config.write_text("Host *\n")
    config.chmod(mode)
    with pytest.raises(UsageError, match="may be written by others"):
        read_lines(config)


def test_an_included_file_others_may_write_is_refused(config: Path) -> None:
    other = config.parent / "other"
    other.write_text("Host *\n User evil\n")
    other.chmod(0o666)
    with pytest.raises(UsageError, match="other may be written by others"):
        hops(config, "Include other\n")


def test_a_pipe_or_folder_is_refused_at_once(config: Path) -> None:
    os.mkfifo(config)
    for path in (config, config.parent):
        with pytest.raises(UsageError, match="not a regular file"):
            read_lines(path)


def test_practice_nodes_read_no_file(config: Path) -> None:
    config.write_text("Host *\n ProxyCommand x\n")
    assert len(route_to(Node(name="n", ssh="root@127.0.0.1:1", provider="practice"), config).hops) == 1
    assert len(route_to(Node(name="n", ssh="a"), config.parent / "absent").hops) == 1


@given(st.binary(max_size=200))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("config") / "config"
    path.write_bytes(data.replace(b"nclude", b""))
    try:
        found = settings_for(read_lines(path), "n1")
    except UsageError:
        return
    assert set(found.values) <= {"hostname", "user", "port", "proxyjump", "proxycommand", "hostkeyalias"}
