#!/bin/sh
# Shows what Warmstart does with its sample sessions. Needs `warmstart` on the PATH and an empty WARMSTART_HOME.
set -eu
samples=$(python -c 'from importlib.resources import files; print(files("warmstart") / "samples")')

run() {
    printf '\n$ %s\n' "$*"
    "$@"
}

run warmstart sync --path "$samples"
run warmstart sessions list --all-projects
run warmstart sessions show 58e3c7d9 --tools
run warmstart profile 58e3c7d9
run warmstart profile --all-projects
run warmstart recall 'where are the constants of the Port Ellery gauge' --all-projects --limit 2

printf '\nThis is what a new session in the project should know, and why:\n'
run warmstart brief --project /home/mara/tidewatch --task 'keep the storm warnings in the database' --explain

printf '\nA session that went well becomes a template. This is how the next one would start:\n'
run warmstart templates extract 58e3c7d9 --name surges
printf '\n$ warmstart templates test surges "keep the storm warnings in the database"\n'
warmstart templates test surges 'keep the storm warnings in the database'

printf '\nThe agent once read a file with a key in it. This is what was stored:\n'
printf '$ warmstart sessions export a94be6f3 --format markdown | grep AWS_ACCESS_KEY_ID\n'
warmstart sessions export a94be6f3 --format markdown | grep AWS_ACCESS_KEY_ID

printf '\nThis session was compacted. This is what the summary of the agent kept, and what Warmstart keeps:\n'
run warmstart handoff score a94be6f3
run warmstart handoff compare a94be6f3 --budget 1500
printf '\nA fresh session, in any agent, starts with the packet:\n'
run warmstart handoff packet a94be6f3
run warmstart handoff resume a94be6f3 --host codex

printf '\nAnd this is how it works inside an agent: examples/agent.py with a scripted model.\n'
run python examples/demo.py
