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

while IFS== read -r package dir; do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$dir"/*_test.go); do
		echo "fuzz: $package $target $time"
		fuzz "$package" "$target" </dev/null
	done
done < <($go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}={{.Dir}}{{end}}' ./...)
[ -z "$failed" ] || { echo "fuzz: failed:$failed" >&2; exit 1; }
