#!/bin/bash
# Runs every fuzz target for a while: fuzz.sh TIME (as go test -fuzztime).
set -eu
time=${1:-5s}
go=${GO:-go}
for package in $($go list ./...); do
	for target in $($go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		echo "fuzz: $package $target $time"
		$go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 20x "$package" | tail -1
	done
done
