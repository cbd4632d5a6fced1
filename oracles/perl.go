package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var perl = &suite{
	name:  "perl",
	about: "perl 5.36.0's t/ and lib/*.t (Debian's source) on Debian's perl and modules",
	least: 240_000, leastQuick: 40_000,
	prepare: preparePerl,
}

var (
	// What is left out: tests of the source tree and of other systems, and
	// those that need gigabytes or many minutes.
	perlLeftOut = regexp.MustCompile(`^t/(porting|win32|bigmem|benchmark|japh|perf)/`)
	perlQuick   = regexp.MustCompile(`^t/(base|cmd|comp|opbasic|mro)/|^t/io/(fs|pipe|dup|open|tell|argv)\.t|^t/op/(array|hash|sort|sprintf|pack|fork|magic|die|closure|local|goto|tie|eval|svleaksub|sub|sselect|alarm|exec|kill0|getppid|require_errors|threads|coreamp|lc)\.t|^t/re/(regexp|pat|subst|reg_eval|qr)\.t`)
	// A test gives up after some seconds or minutes, by the clock: perl's own
	// factor for slow machines, and the same for those that do not use it.
	perlPatience = regexp.MustCompile(`(?m)^    my \$timeout = shift;$`)
)

const perlFactor = 10

func preparePerl(m *machine) ([]unit, error) {
	if err := needs("/usr/bin/perl", "/usr/share/perl/5.36.0/strict.pm"); err != nil {
		return nil, err
	}
	dir, err := m.source("perl", "5.36.0")
	if err != nil {
		return nil, err
	}
	if err := dressPerl(m, dir); err != nil {
		return nil, err
	}
	var units []unit
	for _, top := range []string{"t", "lib"} {
		files, err := m.tool(dir, "find", top, "-name", "*.t", "-size", "+0")
		if err != nil {
			return nil, err
		}
		names := strings.Fields(files)
		slices.Sort(names) // -part means the same everywhere
		for _, name := range names {
			if perlLeftOut.MatchString(name) {
				continue
			}
			// As t/TEST does it: all run in t/.
			file := strings.TrimPrefix("../"+name, "../t/")
			units = append(units, unit{
				name: name, dir: filepath.Join(m.work, "perl-{slot}", "t"), slow: !perlQuick.MatchString(name), read: readTAP,
				args: []string{"./perl", "-I../lib", file},
				env:  []string{fmt.Sprint("PERL_TEST_TIME_OUT_FACTOR=", perlFactor), "PERL_CORE=1", "PERL_HASH_SEED=0", "PERL_PERTURB_KEYS=0", "PERL_TEST_CHARNAMES_SEED=1"},
			})
		}
	}
	return units, nil
}

// dressPerl makes of the source what the tests take for a built tree, with
// Debian's perl and Debian's modules in it; one for each slot, since tests write
// files.
func dressPerl(m *machine, dir string) error {
	for _, modules := range []string{"/usr/share/perl/5.36.0", "/usr/lib/x86_64-linux-gnu/perl/5.36.0", "/usr/lib/x86_64-linux-gnu/perl-base"} {
		if _, err := m.tool(dir, "cp", "-Rn", modules+"/.", "lib"); err != nil {
			return err
		}
	}
	for _, link := range []string{"perl", "t/perl"} {
		if err := os.Symlink("/usr/bin/perl", filepath.Join(dir, link)); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, "t", "test.pl")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !perlPatience.Match(text) {
		return fmt.Errorf("no timeout of watchdog in %s", path)
	}
	patient := perlPatience.ReplaceAllString(string(text), fmt.Sprintf("    my $$timeout = %d * shift;", perlFactor))
	if err := os.WriteFile(path, []byte(patient), 0o644); err != nil {
		return err
	}
	for slot := range m.jobs {
		if _, err := m.tool(m.work, "cp", "-R", dir, fmt.Sprintf("perl-%d", slot)); err != nil {
			return err
		}
	}
	return nil
}
