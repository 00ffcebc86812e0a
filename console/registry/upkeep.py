"""`doctor`, `config`, `completion`, `version`, `help`: the program itself."""

from __future__ import annotations

from console.registry.model import Argument, Command, Example

_CONFIG = "console.cli.commands.config"
_ABOUT = "console.cli.commands.about"
_PLAIN = ("table", "json", "yaml")

COMMANDS: tuple[Command, ...] = (
    Command(
        noun="doctor",
        verb="",
        summary="checks this machine, the fleet and the store, with a remedy for each fault",
        handler="console.cli.commands.doctor:run",
        examples=(Example("reprieve doctor", "exit 0 when nothing stands in the way"),),
    ),
    Command(
        noun="config",
        verb="path",
        summary="where configuration, state and cache lie",
        handler=f"{_CONFIG}:path",
        examples=(Example("reprieve config path", "every path, and whether it exists"),),
    ),
    Command(
        noun="config",
        verb="show",
        summary="the settings in force",
        handler=f"{_CONFIG}:show",
        arguments=(Argument("origin", "say where each value comes from", kind="flag"),),
        examples=(Example("reprieve config show --origin", "which flag, variable or file won"),),
    ),
    Command(
        noun="config",
        verb="validate",
        summary="read configuration and fleet files and report the first fault of each",
        handler=f"{_CONFIG}:validate",
        examples=(Example("reprieve config validate", "exit 2 with file and line of what is wrong"),),
    ),
    Command(
        noun="config",
        verb="schema",
        summary="the JSON Schema of config.toml or of a fleet file",
        handler=f"{_CONFIG}:schema",
        arguments=(
            Argument(
                "which",
                "which schema",
                kind="choice",
                choices=("config", "fleet"),
                operand=True,
                default="config",
            ),
        ),
        examples=(Example("reprieve config schema > config.schema.json", "for editors"),),
        formats=_PLAIN,
    ),
    Command(
        noun="completion",
        verb="",
        summary="print a completion script for your shell",
        handler=f"{_ABOUT}:completion",
        arguments=(
            Argument(
                "shell",
                "your shell",
                kind="choice",
                choices=("bash", "zsh", "fish"),
                operand=True,
                required=True,
            ),
        ),
        examples=(
            Example('eval "$(reprieve completion bash)"', "in ~/.bashrc; your files are never edited"),
        ),
        formats=("table",),
    ),
    Command(
        noun="version",
        verb="",
        summary="the version of this program",
        handler=f"{_ABOUT}:version",
        examples=(Example("reprieve version -o json", "with the Python it runs on"),),
        formats=_PLAIN,
    ),
    Command(
        noun="help",
        verb="",
        summary="help on a command or a topic",
        handler=f"{_ABOUT}:help_",
        arguments=(
            Argument(
                "words", "a command, or a topic: environment, exit-codes, formats", operand=True, many=True
            ),
            Argument("json", "every command as one document (the same as -o json)", kind="flag"),
        ),
        examples=(
            Example("reprieve help jobs restore", "one command"),
            Example("reprieve help environment", "the variables that stand for options"),
        ),
        formats=_PLAIN,
    ),
)
