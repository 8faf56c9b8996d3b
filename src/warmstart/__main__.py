"""The entry point of the command `warmstart` and of `python -m warmstart`."""

import gc
import os
import sys


def main() -> None:
    """Run a command. A hook and a server, which an agent waits for, load as little as possible."""
    gc.set_threshold(100_000)  # loading modules makes many objects and no garbage
    if sys.argv[1:2] == ["hook"] and "--help" not in sys.argv:
        from warmstart.hosts.hook import main as run_hook

        run_hook(sys.argv[2:])
        os._exit(0)  # skip the shutdown, because the agent is waiting
    if sys.argv[1:] == ["mcp"] and sys.stdin and not sys.stdin.isatty():
        from warmstart.mcp_server import serve

        serve()
    else:
        from warmstart.cli import main as run_command

        run_command()


if __name__ == "__main__":
    main()
