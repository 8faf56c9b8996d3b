#!/bin/sh
# Install the real agents that `make test-hosts` drives, each into a folder of its own, so that what they need never
# meets what we need. Does nothing where they are there already. Fails if one of them cannot be installed or does not
# start. HOST is one of them, or "all"; Codex and Copilot come along, because other agents learn from their sessions.
#     sh tests/hosts/install.sh PYTHON FOLDER HOST CLAUDE_CODE_VERSION...
set -eu
python=$1
folder=$2
host=$3
shift 3
hermes=0.19.0

wanted() { # NAME: whether it is to be installed
    case " $host codex copilot " in
    *" all "* | *" $1 "*) ;;
    *) return 1 ;;
    esac
}

starts() { # NAME PROGRAM VERSION: it runs, and says that it is this version ("latest" is any)
    said=$("$2" --version 2>&1) || { echo "$1 does not start: $said" >&2; exit 1; }
    case "$said" in
    *"${3#latest}"*) ;;
    *) echo "$1 should be $3, but says: $said" >&2; exit 1 ;;
    esac
}

package() { # FOLDER PROGRAM PACKAGE VERSION: from npm
    if [ "$4" = latest ] || [ ! -e "$folder/$1/.ready-$4" ]; then
        npm install --loglevel error --no-audit --no-fund --prefix "$folder/$1" "$3@$4"
        starts "$1" "$folder/$1/node_modules/.bin/$2" "$4"
        touch "$folder/$1/.ready-$4"
    fi
}

mkdir -p "$folder"
if wanted hermes && [ ! -e "$folder/hermes/.ready-$hermes" ]; then
    "$python" -m venv "$folder/hermes"
    "$folder/hermes/bin/python" -m pip install --quiet "hermes-agent==$hermes"
    starts Hermes "$folder/hermes/bin/hermes" "$hermes"
    touch "$folder/hermes/.ready-$hermes"
fi
if wanted claude; then
    for version; do
        package "claude-$version" claude @anthropic-ai/claude-code "$version"
    done
fi
! wanted cline || package cline cline cline 3.0.65
! wanted codex || package codex codex @openai/codex 0.166.0
! wanted copilot || package copilot copilot @github/copilot 1.0.102
! wanted gemini || package gemini gemini @google/gemini-cli 0.61.0
! wanted opencode || package opencode opencode opencode-ai 1.18.33
! wanted pi || package pi pi @mariozechner/pi-coding-agent 0.73.1
! wanted qwen || package qwen qwen @qwen-code/qwen-code 0.24.4
