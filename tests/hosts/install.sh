#!/bin/sh
# Install the real agents that `make test-hosts` drives, each at a fixed version and into a folder of its own, so that
# what they need never meets what we need. Does nothing where they are there already.
set -eu
python=$1
folder=$2
hermes=0.19.0
claude=2.1.325

mkdir -p "$folder"
if [ ! -e "$folder/hermes/.ready-$hermes" ]; then
    "$python" -m venv "$folder/hermes"
    "$folder/hermes/bin/python" -m pip install --quiet "hermes-agent==$hermes"
    touch "$folder/hermes/.ready-$hermes"
fi
if [ ! -e "$folder/claude/.ready-$claude" ]; then
    npm install --silent --no-audit --no-fund --prefix "$folder/claude" "@anthropic-ai/claude-code@$claude"
    touch "$folder/claude/.ready-$claude"
fi
