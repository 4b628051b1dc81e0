#!/bin/sh
# study.sh OUT [NAME...]: repeats the measurements in docs/results with these names (default: all) on this machine, into
# OUT, and compares. What is in OUT already is not measured again. It runs in a checkout.
set -eu
out=$1
shift
mkdir -p "$out"
out=$(cd "$out" && pwd)
dirty=$(git diff --quiet HEAD -- || echo +dirty)
make -s build PROGRAM="$out/pilotfish" VERSION="$(git rev-parse HEAD)$dirty"
for name in ${*:-demo rtt engine gateway link real-times}; do
	kept=docs/results/$name.jsonl.gz
	if [ ! -e "$out/$name.jsonl" ]; then
		[ "$name" != engine ] || [ -e "$out/random.gguf" ] || "$out/pilotfish-bench" synth "$out/random.gguf"
		# older records are of one program, with bench as a command, and with a demo at the speeds of a real pair
		args=$(gzip -dc "$kept" | sed -n '1s/.*"command":"pilotfish\(-bench\)* \([^"]*\)".*/\2/p' |
			sed "s|random.gguf|$out/&|; s/^bench //; s/^demo/routing --edge-tps=60/")
		printf '\n%s: pilotfish-bench %s\n' "$name" "$args"
		# shellcheck disable=SC2086 # the words of a command
		"$out/pilotfish-bench" $args >"$out/$name.new"
		mv "$out/$name.new" "$out/$name.jsonl"
	fi
	printf '\n%s: as kept, and now\n' "$name"
	"$out/pilotfish-bench" compare "$kept" "$out/$name.jsonl" || echo "these cannot be compared"
done
