"""Completion scripts for bash, zsh and fish, made from the registry. They start no process to complete a word."""

from __future__ import annotations

from console.cli.options import options_of
from console.registry.index import NOUNS, all_commands, commands_of
from console.registry.model import Command

_BASH = """\
# reprieve completion for bash: eval "$(reprieve completion bash)"
_reprieve() {{
    local words="" noun="" verb="" index word current="${{COMP_WORDS[COMP_CWORD]}}"
    for ((index = 1; index < COMP_CWORD; index++)); do
        word="${{COMP_WORDS[index]}}"
        [[ "$word" == -* ]] && continue
        if [[ -z "$noun" ]]; then noun="$word"; elif [[ -z "$verb" ]]; then verb="$word"; fi
    done
    case "$noun $verb" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _reprieve reprieve
"""
_ZSH_HEAD = """\
# reprieve completion for zsh: eval "$(reprieve completion zsh)"
autoload -Uz bashcompinit && bashcompinit
"""


def script(shell: str) -> str:
    """The script for `shell`: bash, zsh or fish."""
    if shell == "fish":
        return _fish()
    bash = _BASH.format(cases="\n".join(_cases()))
    return bash if shell == "bash" else _ZSH_HEAD + bash.split("\n", 1)[1]


def _flags(command: Command) -> str:
    return " ".join(f"--{argument.name}" for argument in options_of(command))


def _cases() -> list[str]:
    """One `case` arm for each state of the line; patterns with a verb come before the noun's own."""
    lines = [
        f'        "{command.words}") words="{_flags(command)}" ;;'
        for command in all_commands()
        if command.verb
    ]
    for noun in NOUNS:
        commands = commands_of(noun.word)
        words = [command.verb for command in commands if command.verb]
        words += [_flags(command) for command in commands if not command.verb]
        if words:
            lines.append(f'        "{noun.word} "*) words="{" ".join(words)}" ;;')
    lines.append(f'        " ") words="{" ".join(noun.word for noun in NOUNS)} --help --context" ;;')
    return lines


def _fish() -> str:
    lines = [
        "# reprieve completion for fish: reprieve completion fish | source",
        "complete -c reprieve -f",
    ]
    for noun in NOUNS:
        text = _quoted(noun.summary)
        lines.append(f"complete -c reprieve -n __fish_use_subcommand -a {noun.word} -d {text}")
    for command in all_commands():
        seen = f"__fish_seen_subcommand_from {command.noun}"
        if command.verb:
            lines.append(
                f"complete -c reprieve -n {_quoted(seen)} -a {command.verb} -d {_quoted(command.summary)}"
            )
            seen += f"; and __fish_seen_subcommand_from {command.verb}"
        for argument in options_of(command):
            needs = "" if argument.kind == "flag" else " -r"
            lines.append(
                f"complete -c reprieve -n {_quoted(seen)} -l {argument.name}{needs} -d {_quoted(argument.help)}"
            )
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
