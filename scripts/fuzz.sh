#!/bin/bash
# Runs every fuzz target for a while: fuzz.sh TIME (as go test -fuzztime). A target
# that fails shows all that it printed, and is an error at the end.
set -eu -o pipefail
time=${1:-5s}
go=${GO:-go}
failed=

# On a busy machine go test may end with nothing but "context deadline exceeded",
# when the time is over while an input is still run: that is no
# finding, and is tried again.
fuzz() {
	local out
	for _ in 1 2 3; do
		if out=$($go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 20x "$1" 2>&1); then
			tail -1 <<<"$out"
			return
		fi
		grep -q 'context deadline exceeded' <<<"$out" && ! grep -q 'Failing input' <<<"$out" || break
	done
	echo "$out"
	failed="$failed $2"
}

for package in $($go list ./...); do
	for target in $($go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		echo "fuzz: $package $target $time"
		fuzz "$package" "$target"
	done
done
[ -z "$failed" ] || { echo "fuzz: failed:$failed" >&2; exit 1; }
