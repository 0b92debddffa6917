"""``zun-manage``: the operator's tool for what the services keep in other systems."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from zun import conf as configuration
from zun.domain.errors import ZunError

app = typer.Typer(help="Look after what Zun keeps in other services.", no_args_is_help=True, add_completion=False)
placement = typer.Typer(help="What is claimed in Placement.", no_args_is_help=True)
app.add_typer(placement, name="placement")
relay = typer.Typer(help="Certificates of the relays of sessions.", no_args_is_help=True)
app.add_typer(relay, name="relay")
node = typer.Typer(help="Nodes: empty one, and use it again.", no_args_is_help=True)
app.add_typer(node, name="node")

ConfigFile = Annotated[list[Path] | None, typer.Option("--config-file", help="Configuration file; may be repeated.")]
Heal = Annotated[bool, typer.Option("--heal", help="Make right what is wrong.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Wait = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=3600,
        help="Seconds between the two looks at what seems wrong; a create at work may take this long between its claim"
        " and its record. Default: 5, and with image validation as long as a node may take to answer.",
    ),
]


_IN_NAMES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:")


@app.callback()
def common(context: typer.Context, config_file: ConfigFile = None) -> None:
    context.obj = config_file


@placement.command()
def audit(
    context: typer.Context,
    heal: Heal = False,
    as_json: Json = False,
    wait: Wait = None,
    config_file: ConfigFile = None,
) -> None:
    """Compare what is claimed in Placement with the containers. Exit code 0: all is right (now); 1: something is
    wrong; 2: it could not be told."""
    from zun.cli.placement_audit import run

    raise typer.Exit(run(_loaded(context, config_file), heal=heal, as_json=as_json, wait=wait))


Scope = Annotated[
    str,
    typer.Option(help="What to look at: 'node', what this machine holds; 'cloud', what services hold; 'all', both."),
]
Grace = Annotated[str, typer.Option(help="How old a leftover must be to be removed: 90s, 10m, 2h, 1d.")]
Host = Annotated[str | None, typer.Option(help="The name that this machine has as a node. Default: [DEFAULT]/host.")]


@app.command("audit")
def whole_audit(
    context: typer.Context,
    heal: Annotated[bool, typer.Option("--heal", help="Remove what is older than --grace.")] = False,
    grace: Grace = "10m",
    scope: Scope = "all",
    host: Host = None,
    as_json: Json = False,
    config_file: ConfigFile = None,
) -> None:
    """Compare what is ours in engines, kernel, files and services with the records. Exit code 0: nothing is left (now);
    1: something is left; 2: something could not be told."""
    from zun.cli import audit as command

    loaded = _loaded(context, config_file)
    raise typer.Exit(
        command.run(loaded, heal=heal, grace=command.duration(grace), scope=scope, host=host, as_json=as_json)
    )


Directory = Annotated[Path, typer.Argument(help="Where the files are made; the authority's key stays there.")]
Nodes = Annotated[list[str] | None, typer.Option("--node", help="Address or host name of a node's relay; repeat it.")]


@relay.command()
def certificates(directory: Directory, node: Nodes = None) -> None:
    """Make an authority for relays and proxies, where there is none, a certificate for each node named, and one for
    the proxies. What is there and still good for 60 days is kept: run it again to renew, and to add nodes."""
    from zun.relay.certificates import Folder

    folder = Folder(directory)
    try:
        for name in node or ():
            if not name or name in ("relay", "proxy", "ca", "lock") or not set(name) <= _IN_NAMES:
                raise configuration.ConfigError(f"--node {name!r} is neither a host name nor an address")
            pair = folder.named(name, [name])
            typer.echo(f"{name}: {pair.certificate} {pair.key}")
        pair = folder.proxy()
    except OSError as error:
        raise configuration.ConfigError(f"{directory} cannot be written: {error.strerror or error}") from error
    typer.echo(f"proxies: {pair.certificate} {pair.key}")
    typer.echo(f"all: {folder.ca}")


NodeName = Annotated[str, typer.Argument(help="The node's [DEFAULT]/host.")]
Deadline = Annotated[
    str, typer.Option(help="Longest time to wait, as 90s, 10m or 1h; what is moving then goes on by itself.")
]


@node.command()
def drain(
    context: typer.Context,
    host: NodeName,
    deadline: Deadline = "10m",
    as_json: Json = False,
    config_file: ConfigFile = None,
) -> None:
    """Give the node no new containers and move away those that can be; the others are named with the reason. May be run
    again. Exit code 0: the node is empty; 1: it is not; 2: it could not be done."""
    from zun.cli import node as nodes

    raise typer.Exit(nodes.drain(_loaded(context, config_file), host, deadline, as_json=as_json))


@node.command()
def undrain(context: typer.Context, host: NodeName, as_json: Json = False, config_file: ConfigFile = None) -> None:
    """Let a drained node take containers again; what has moved stays where it is."""
    from zun.cli import node as nodes

    raise typer.Exit(nodes.undrain(_loaded(context, config_file), host, as_json=as_json))


@node.command()
def status(context: typer.Context, host: NodeName, as_json: Json = False, config_file: ConfigFile = None) -> None:
    """Say what is on the node. Exit code 0: nothing; 1: something."""
    from zun.cli import node as nodes

    raise typer.Exit(nodes.status(_loaded(context, config_file), host, as_json=as_json))


def _loaded(context: typer.Context, config_file: list[Path] | None) -> Any:
    files = config_file or context.obj
    return configuration.load(files=[str(file) for file in files] if files else None, prog="zun-manage")


def main() -> None:
    """The console script."""
    try:
        app()
    except (ZunError, configuration.ConfigError) as error:
        typer.echo(f"zun-manage: {error}", err=True)
        sys.exit(2)
