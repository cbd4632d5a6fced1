#!/bin/bash
# Makes a package of what is in build/: package.sh deb or tar, into build/. What is built
# twice from the same source is the same, byte by byte.
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n 's/^const Version = "\(.*\)"$/\1/p' internal/version/version.go)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
umask 022
root=build/package
rm -rf $root
mkdir -p $root

case $1 in
tar)
	name=dynprof-$version-linux-amd64
	make -s install DESTDIR="$PWD/$root/$name" PREFIX= UNITS=/systemd DOC=/doc UNITPREFIX=/usr/local
	cp -r deploy "$root/$name/doc/"
	tar -C $root --sort=name --owner=0 --group=0 --numeric-owner --mtime=@$SOURCE_DATE_EPOCH -cf - $name | gzip -9n >build/$name.tar.gz
	echo build/$name.tar.gz
	;;
deb)
	at=$root/deb
	lib=/usr/lib/x86_64-linux-gnu/dynprof # a folder of its own, as Debian has preloaded libraries
	doc=$at/usr/share/doc/dynprof
	make -s install DESTDIR="$PWD/$at" PREFIX=/usr LIBDIR=$lib UNITS=/lib/systemd/system \
		ZSH=/usr/share/zsh/vendor-completions
	rm $doc/LICENSE # copyright says where it is
	install -Dm644 deploy/debian/default $at/etc/default/dynprof
	install -Dm644 deploy/debian/lintian-overrides $at/usr/share/lintian/overrides/dynprof
	cat >$doc/copyright <<-END
		Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
		Source: https://github.com/dynprof/dynprof

		Files: *
		Copyright: 2026 The dynprof authors
		License: Apache-2.0
		 On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0.
	END
	printf 'dynprof (%s) unstable; urgency=medium\n\n  * See the log of the source.\n\n -- dynprof <dynprof@users.noreply.github.com>  %s\n' \
		"$version" "$(date -uRd @$SOURCE_DATE_EPOCH)" | gzip -9n >$doc/changelog.gz
	gzip -9n $at/usr/share/man/man1/*.1
	mkdir $at/DEBIAN
	size=$(du -sk --apparent-size --exclude=DEBIAN $at | cut -f1)
	sed "s/@VERSION@/$version/; s/@SIZE@/$size/" deploy/debian/control.in >$at/DEBIAN/control
	install -m755 deploy/debian/{postinst,prerm,postrm} $at/DEBIAN/
	install -m644 deploy/debian/triggers $at/DEBIAN/
	echo /etc/default/dynprof >$at/DEBIAN/conffiles
	(cd $at && find . -type f -not -path './DEBIAN/*' -not -path './etc/*' -printf '%P\0' | sort -z | xargs -0 md5sum) >$at/DEBIAN/md5sums
	find $at -newermt @$SOURCE_DATE_EPOCH -print0 | xargs -0r touch -hd @$SOURCE_DATE_EPOCH
	dpkg-deb --root-owner-group -Zxz --build $at build/dynprof_${version}_amd64.deb >&2
	echo build/dynprof_${version}_amd64.deb
	;;
*)
	echo "usage: package.sh deb|tar" >&2
	exit 2
	;;
esac
