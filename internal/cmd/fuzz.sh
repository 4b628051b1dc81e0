#!/bin/sh
# fuzz.sh TIME: runs every fuzz target of the module for TIME ("20s"), as many at once as there are cores, with one
# worker each. A package is built once for all its targets, which go test -fuzz does again for each, and while those of
# packages before it run.
#
# With GUIDED=no inputs are random ones: those that reach new code are not looked for, and nothing is compiled for that.
#
# fuzz.sh TIME FOLDER BINARY CORPUS TARGET: runs one of them. CORPUS is the folder for inputs that reach new code.
set -eu
GO=${GO:-go}
time=$1
guide="-fuzz ."
[ "${GUIDED:-yes}" = yes ] || guide=

# builds prints a line for each target as soon as its package is built, and leaves $dir/built behind if all could be.
builds() {
	cache=$($GO env GOCACHE)/fuzz
	n=0
	for folder in $(grep -rl '^func Fuzz' --include='*_test.go' . | xargs -n 1 dirname | sort -u); do
		n=$((n + 1))
		$GO test -c -vet=off -ldflags=-w $guide -o "$dir/$n.test" "$folder"
		corpus=$cache/$($GO list "$folder")
		(cd "$folder" && "$dir/$n.test" -test.list '^Fuzz') >"$dir/$n.list"
		sed "s|^|$time $folder $dir/$n.test $corpus |" "$dir/$n.list"
	done
	touch "$dir/built"
}

if [ $# -eq 1 ]; then
	dir=$(mktemp -d)
	trap 'rm -r "$dir"' EXIT
	builds | xargs -r -P "$(getconf _NPROCESSORS_ONLN)" -L 1 "$0"
	[ -e "$dir/built" ]
	exit
fi

binary=$3 corpus=$4 target=$5
cd "$2"
log=$(mktemp)
trap 'rm "$log"' EXIT

fuzz() {
	"$binary" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzminimizetime 10x \
		-test.fuzzcachedir "$corpus" -test.parallel 1 </dev/null >"$log" 2>&1
}

missedDeadline() { grep -qx '    context deadline exceeded' "$log" && ! grep -q 'Failing input' "$log"; }

again= tries=1
until fuzz; do
	[ $tries -lt 4 ] && missedDeadline || {
		echo "$2 $target"
		cat "$log"
		exit 1
	}
	tries=$((tries + 1)) again=" (tried again, since go's fuzzer missed its own deadline)"
done
echo "$2 $target$again: $(grep '^fuzz: elapsed' "$log" | tail -1)"
