"""`offheap completion SHELL`: a script that completes commands and options, written by shtab."""

from __future__ import annotations

import argparse

_SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print a script that completes offheap's commands and options in your shell."
    parser.epilog = """examples:
  eval "$(offheap completion bash)"                     in ~/.bashrc
  offheap completion zsh > ~/.zfunc/_offheap            with ~/.zfunc in fpath
  offheap completion fish > ~/.config/fish/completions/offheap.fish
"""
    parser.add_argument("shell", choices=_SHELLS, help="the shell that will read the script")


def run(args: argparse.Namespace) -> int:
    import shtab

    from offheap.cli.main import full_parser

    print(shtab.complete(full_parser(), shell=args.shell))
    return 0
