#!/bin/sh
# fuzz.sh TIME: runs every fuzz target of the module for TIME ("20s"), as many at once as there are cores, with one
# worker each. A package is built once for all its targets, which go test -fuzz does again for each.
#
# fuzz.sh TIME FOLDER BINARY TARGET: runs one of them.
set -eu
GO=${GO:-go}
time=$1

if [ $# -eq 1 ]; then
	dir=$(mktemp -d)
	trap 'rm -r "$dir"' EXIT
	n=0
	for folder in $(grep -rl '^func Fuzz' --include='*_test.go' . | xargs -n 1 dirname | sort -u); do
		n=$((n + 1))
		$GO test -c -fuzz . -o "$dir/$n.test" "$folder"
		(cd "$folder" && "$dir/$n.test" -test.list '^Fuzz') | sed "s|^|$time $folder $dir/$n.test |" >>"$dir/targets"
	done
	xargs -P "$(getconf _NPROCESSORS_ONLN)" -L 1 "$0" <"$dir/targets"
	exit
fi

binary=$3 target=$4
cd "$2"
cache=$($GO env GOCACHE)/fuzz/$($GO list .)
log=$(mktemp)
trap 'rm "$log"' EXIT

fuzz() {
	"$binary" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzminimizetime 10x \
		-test.fuzzcachedir "$cache" -test.parallel 1 </dev/null >"$log" 2>&1
}

missedDeadline() { grep -qx '    context deadline exceeded' "$log" && ! grep -q 'Failing input' "$log"; }

again=
if ! fuzz; then
	missedDeadline && again=" (again, since go's fuzzer missed its own deadline)" && fuzz || {
		echo "$2 $target"
		cat "$log"
		exit 1
	}
fi
echo "$2 $target$again: $(grep '^fuzz: elapsed' "$log" | tail -1)"
