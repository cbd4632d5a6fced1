#!/bin/bash
# Installs what building, testing and measuring need and this machine lacks, as
# Debian packages: deps.sh SET..., of the sets in deps/, or of test without one.
# A line there is a command or file, and the package that has it. Says so and goes
# on if it may not: who needs them lists what it skips.
set -eu
cd "$(dirname "$0")/deps"

missing=
for line in $(grep -hv '^#' "${@:-test}"); do
	what=${line%%:*} package=${line##*:}
	case $what in
	/*) [ -e "$what" ] && continue ;;
	*) command -v "$what" >/dev/null 2>&1 && continue ;;
	esac
	missing="$missing $package"
done
if [ -n "$missing" ]; then
	missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
	sudo=
	[ "$(id -u)" = 0 ] || sudo='sudo -n'
	echo "deps: installing $missing"
	export DEBIAN_FRONTEND=noninteractive
	$sudo apt-get update -qq || true
	install() { $sudo env RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$@" >/dev/null; } # no server is started
	# One after the other where not all at once: what a mirror lacks does not keep
	# the others away.
	install $missing 2>/dev/null || for package in $missing; do
		install "$package" || echo "deps: cannot install $package; do it as root: apt-get install $package" >&2
	done
fi
command -v gcc >/dev/null # no library without
