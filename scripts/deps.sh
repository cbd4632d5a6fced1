#!/bin/bash
# Installs what building and testing need and this machine lacks, as Debian
# packages. Says so and goes on if it may not: the tests then list what they
# skip.
set -eu

# command or file : Debian package
wanted='
gcc:gcc
g++:g++
objdump:binutils
strip:binutils
make:make
git:git
/usr/include/stdio.h:libc6-dev
clang:clang
ld.lld:lld
valgrind:valgrind
gdb:gdb
strace:strace
lua5.4:lua5.4
sqlite3:sqlite3
xz:xz-utils
python3.11:python3.11
perl:perl
openssl:openssl
bzip2:bzip2
/usr/lib/x86_64-linux-gnu/libx265.so.199:libx265-199
/usr/lib/x86_64-linux-gnu/libdav1d.so.6:libdav1d6
/usr/bin/python3.11:python3.11
'
missing=
for line in $wanted; do
	what=${line%%:*} package=${line##*:}
	case $what in
	/*) [ -e "$what" ] && continue ;;
	*) command -v "$what" >/dev/null 2>&1 && continue ;;
	esac
	missing="$missing $package"
done
[ -n "$missing" ] || exit 0

missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
sudo=
[ "$(id -u)" = 0 ] || sudo='sudo -n'
echo "deps: installing $missing"
export DEBIAN_FRONTEND=noninteractive
if $sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null; then
	exit 0
fi
echo "deps: cannot install $missing; do it as root: apt-get install $missing" >&2
command -v gcc >/dev/null || exit 1
