#!/bin/sh
# Install the real agents that `make test-hosts` drives, each into a folder of its own, so that what they need never
# meets what we need. Does nothing where they are there already. Fails if one of them cannot be installed, does not
# start, or says that it is another version. HOST is one of them, or "all"; Codex and Copilot come along, because other
# agents learn from their sessions.
#
# Every version is named: without one, npm silently installs the newest release that declares support for this Node, which
# on Node 20 is an old Claude Code and an old Qwen. Where Node is too old for an agent, one comes along too.
#     sh tests/hosts/install.sh PYTHON FOLDER HOST CLAUDE_CODE_VERSION...
set -eu
python=$1
folder=$2
host=$3
shift 3
hermes=0.19.0
node=22.23.3

wanted() { # NAME: whether it is to be installed
    case " $host codex copilot " in
    *" all "* | *" $1 "*) ;;
    *) return 1 ;;
    esac
}

starts() { # NAME PROGRAM VERSION: it runs, and says that it is this version ("latest" is any)
    said=$("$2" --version 2>&1) || { echo "$1 does not start: $said" >&2; exit 1; }
    found=$(echo "$said" | grep -Eo '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
    case "$3" in
    latest) echo "$1 is $found" ;;
    "$found") ;;
    *) echo "$1 should be $3, but says: $said" >&2; exit 1 ;;
    esac
}

package() { # FOLDER PROGRAM PACKAGE VERSION: from npm
    if [ "$4" = latest ] || [ ! -e "$folder/$1/.ready-$4" ]; then
        npm install --loglevel error --no-audit --no-fund --prefix "$folder/$1" "$3@$4"
        touch "$folder/$1/.ready-$4"
    fi
    starts "$1" "$folder/$1/node_modules/.bin/$2" "$4" # also later: it may have updated itself
}

bundle() { # FOLDER PROGRAM PACKAGE VERSION FILE: from npm, but only its program, which needs none of its dependencies
    if [ ! -e "$folder/$1/.ready-$4" ]; then
        mkdir -p "$folder/$1/node_modules/.bin"
        (cd "$folder/$1" && tar xzf "$(npm pack --loglevel error --silent "$3@$4")")
        chmod +x "$folder/$1/package/$5"
        ln -sf "../../package/$5" "$folder/$1/node_modules/.bin/$2"
        touch "$folder/$1/.ready-$4"
    fi
    starts "$1" "$folder/$1/node_modules/.bin/$2" "$4"
}

mkdir -p "$folder"
if ! node -e 'process.exit(parseInt(process.versions.node) < 22 ? 1 : 0)'; then
    package node node node "$node"
    PATH=$folder/node/node_modules/.bin:$PATH
fi
if wanted hermes; then
    if [ ! -e "$folder/hermes/.ready-$hermes" ]; then
        "$python" -m venv "$folder/hermes"
        "$folder/hermes/bin/python" -m pip install --quiet "hermes-agent==$hermes"
        touch "$folder/hermes/.ready-$hermes"
    fi
    starts Hermes "$folder/hermes/bin/hermes" "$hermes"
fi
if wanted claude; then
    for version; do
        package "claude-$version" claude @anthropic-ai/claude-code "$version"
    done
fi
! wanted cline || package cline cline cline 3.0.65
! wanted codex || package codex codex @openai/codex 0.169.0
! wanted copilot || package copilot copilot @github/copilot 1.0.102
! wanted gemini || package gemini gemini @google/gemini-cli 0.61.0
! wanted opencode || package opencode opencode opencode-ai 1.18.33
! wanted pi || bundle pi pi @earendil-works/pi-coding-agent 1.5.2 dist/bundle/cli.js # not all its dependencies are published
! wanted qwen || package qwen qwen @qwen-code/qwen-code 0.24.4
