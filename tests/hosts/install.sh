#!/bin/sh
# Install the real agents that `make test-hosts` drives, each version into a folder of its own, so that what they need
# never meets what we need. Does nothing where they are there already. Fails if one of them cannot be installed or does
# not start.
#     sh tests/hosts/install.sh PYTHON FOLDER CLAUDE_CODE_VERSION...
set -eu
python=$1
folder=$2
shift 2
hermes=0.19.0

starts() { # NAME PROGRAM VERSION: it runs, and says that it is this version ("latest" is any)
    said=$("$2" --version 2>&1) || { echo "$1 does not start: $said" >&2; exit 1; }
    case "$said" in
    *"${3#latest}"*) ;;
    *) echo "$1 should be $3, but says: $said" >&2; exit 1 ;;
    esac
}

mkdir -p "$folder"
if [ ! -e "$folder/hermes/.ready-$hermes" ]; then
    "$python" -m venv "$folder/hermes"
    "$folder/hermes/bin/python" -m pip install --quiet "hermes-agent==$hermes"
    starts Hermes "$folder/hermes/bin/hermes" "$hermes"
    touch "$folder/hermes/.ready-$hermes"
fi
for claude; do
    if [ "$claude" = latest ] || [ ! -e "$folder/claude-$claude/.ready" ]; then
        npm install --loglevel error --no-audit --no-fund --prefix "$folder/claude-$claude" \
            "@anthropic-ai/claude-code@$claude"
        starts "Claude Code" "$folder/claude-$claude/node_modules/.bin/claude" "$claude"
        touch "$folder/claude-$claude/.ready"
    fi
done
