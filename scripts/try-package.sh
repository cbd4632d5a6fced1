#!/bin/bash
# Installs the package that make deb has made in a new, minimal Debian, proves it there, as
# root and as nobody, and removes it: what is left must be what was there before. As root;
# needs mmdebstrap, and a mirror.
set -eu
cd "$(dirname "$0")/.."
deb=$(ls build/dynprof_*_amd64.deb)
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
suite=${SUITE:-bookworm}

step() { echo "try-package: $*"; }
in_root() { # a command in the new system, in namespaces of its own, which end with it
	unshare --mount --pid --fork --kill-child -- sh -c '
		mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"' "$root" "$@"
}
list() { # all files, but for what dpkg keeps for itself, and its logs
	(cd "$root" && find . \( -path ./proc -o -path ./dev -o -path ./sys -o -path ./var/log -o -path ./var/lib/dpkg \) -prune -o \
		\( -type f -printf '%p %m %u ' -exec md5sum -z {} \; -printf '\n' \) -o -printf '%p %y %m %u %l\n' | tr -d '\0' | LC_ALL=C sort) >"$1"
}

step "a minimal $suite"
mmdebstrap --quiet --variant=minbase "$suite" "$root" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
mkdir -p "$root/proc" "$root/dev"
cp "$deb" "$work/dynprof.deb"
list "$work/before"

step "install $deb"
install -m644 "$work/dynprof.deb" "$root/dynprof.deb"
in_root dpkg -i /dynprof.deb >/dev/null
rm "$root/dynprof.deb"
in_root test ! -e /var/cache/dynprof # no plans unless the administrator wants them

step "hotspots doctor, selftest"
in_root hotspots doctor >"$work/doctor" || { cat "$work/doctor" >&2; exit 1; }
in_root sh -c 'TMPDIR=/tmp hotspots selftest' | tail -1
in_root setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent hotspots selftest | tail -1

step "count as a user would, with the command and with the library alone"
in_root sh -c 'cd /tmp && hotspots run --summary 3 -o t.dynprof -- ls / >/dev/null 2>summary && grep -q "calls$" summary && hotspots report t.dynprof >/dev/null'
in_root sh -c 'cd /tmp && LD_PRELOAD=/usr/lib/x86_64-linux-gnu/dynprof/libdynprof.so DYNPROF_OUTPUT=/tmp/u.dynprof ls / >/dev/null && hotspots report u.dynprof >/dev/null'
in_root bash -n /usr/share/bash-completion/completions/hotspots
in_root sh -c 'gzip -t /usr/share/man/man1/hotspots*.gz'

step "plans for all users, on request"
sed -i 's/^PLANS=no/PLANS=yes/; s,^PLANNED=.*,PLANNED=/usr/bin/ls,' "$root/etc/default/dynprof"
in_root sh -c 'dpkg-trigger --by-package=dynprof /usr/bin && dpkg --triggers-only dynprof && hotspots cache --system ls | grep -q /ls$' >/dev/null

step "remove"
in_root dpkg --purge dynprof >/dev/null
rm -rf "$root"/tmp/* "$root"/tmp/.??* "$root/root/.cache" # what was counted, and by whom
list "$work/after"
if ! diff "$work/before" "$work/after" >&2; then
	echo "try-package: the package leaves something behind" >&2
	exit 1
fi
echo "try-package: installed, proved, and removed without a trace"
