package main

import (
	"path/filepath"
	"regexp"
)

var git = &suite{
	name:  "git",
	about: "git 2.39.5's t/ (Debian's source) on Debian's git; only the helper programs of the tests are built",
	least: 2500, leastQuick: 200,
	prepare: prepareGit,
}

// gitTests are the scripts that run, by their numbers, of which the first digit
// is the subject: the basics, index, working tree, refs, diff, packs, revisions,
// porcelain. Each git that they run is planned anew, in some 40 ms.
var (
	gitTests = regexp.MustCompile(`^t(0010|0021|1000|1001|1006|1050|1300|1400|1410|1500|2030|2070|3070|3200|3301|3400|3600|3900|4013|4015|4051|4100|4202|5000|5300|5303|5500|6000|6012|6030|6423|7004|7102|7508|7600)-`)
	gitQuick = regexp.MustCompile(`^t(0001|1501|2000|2200|3000|3501|4000|4001)-`)
)

func prepareGit(m *machine) ([]unit, error) {
	if err := needs("git", "gcc", "make", "perl", "/usr/include/zlib.h"); err != nil {
		return nil, err
	}
	dir, err := m.source("git", "2.39.5")
	if err != nil {
		return nil, err
	}
	// The tests want helper programs and templates of their own; git itself is
	// that of Debian, by GIT_TEST_INSTALLED.
	options := []string{"make", "-j2", "-s", "CFLAGS=-O1 -w", "NO_OPENSSL=1", "NO_CURL=1", "NO_EXPAT=1", "NO_GETTEXT=1",
		"NO_TCLTK=1", "NO_PYTHON=1", "PERL_PATH=/usr/bin/perl"}
	if _, err := m.tool(dir, append(options, "GIT-BUILD-OPTIONS", "t/helper/test-tool")...); err != nil {
		return nil, err
	}
	if _, err := m.tool(dir, append(options, "-C", "templates")...); err != nil {
		return nil, err
	}
	t := filepath.Join(dir, "t")
	scripts, err := filepath.Glob(filepath.Join(t, "t[0-9]*.sh"))
	if err != nil {
		return nil, err
	}
	var units []unit
	for _, s := range scripts {
		name := filepath.Base(s)
		if !gitTests.MatchString(name) && !gitQuick.MatchString(name) {
			continue
		}
		units = append(units, unit{
			name: name, dir: t, slow: !gitQuick.MatchString(name), read: readTAP,
			args: []string{"/bin/sh", "./" + name, "--root=" + filepath.Join(m.work, "tmp", "trash-{slot}")},
			env:  []string{"GIT_TEST_INSTALLED=/usr/bin", "TEST_NO_MALLOC_CHECK=1"},
		})
	}
	return units, nil
}
