package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

var coreutils = &suite{
	name:  "coreutils",
	about: "GNU coreutils 9.1's tests/ (Debian's source) on Debian's coreutils",
	least: 500, leastQuick: 90,
	prepare: prepareCoreutils,
}

var (
	coreutilsList = regexp.MustCompile(`(?s)\nall_tests =.*?\n\n`)
	coreutilsTest = regexp.MustCompile(`tests/\S+\.(sh|pl|xpl)`)
	// These look for the least address space in which a program runs, and then
	// compare its stderr there. The library does not fit, and says so on stderr.
	coreutilsMemory = regexp.MustCompile(`get_min_ulimit_v_|ulimit -v`)
	coreutilsQuick  = regexp.MustCompile(`^tests/(chmod|ln|mkdir|touch|readlink|install|fmt)/|^tests/id/[^z]|^tests/misc/(env-null|env-signal|env\.|nohup|nice|timeout|stdbuf|tee|printf|sort-[dfmsu]|tr-case|ls-time)`)
)

func prepareCoreutils(m *machine) ([]unit, error) {
	if err := needs("gcc", "perl", "/bin/ls"); err != nil {
		return nil, err
	}
	dir, err := m.source("coreutils", "9.1")
	if err != nil {
		return nil, err
	}
	if out, _ := exec.Command("ls", "--version").Output(); !strings.HasPrefix(string(out), "ls (GNU coreutils) 9.1\n") {
		return nil, skip("the coreutils of this machine are not 9.1")
	}
	list, err := os.ReadFile(filepath.Join(dir, "tests", "local.mk"))
	if err != nil {
		return nil, err
	}
	if err := dressCoreutils(m, dir); err != nil {
		return nil, err
	}
	var units []unit
	for _, name := range coreutilsTest.FindAllString(coreutilsList.FindString(string(list)), -1) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if coreutilsMemory.Match(text) {
			continue
		}
		units = append(units, unit{
			name: name, dir: dir, slow: !coreutilsQuick.MatchString(name), read: readStatus,
			args: []string{"/bin/sh", "./oracle.sh", name},
		})
	}
	return units, nil
}

// dressCoreutils makes of the source what the tests take for a built tree, with
// Debian's programs in src/.
func dressCoreutils(m *machine, dir string) error {
	names, err := m.tool(dir, "sh", "build-aux/gen-lists-of-programs.sh", "--list-progs")
	if err != nil {
		return err
	}
	var programs []string
	for _, name := range strings.Fields(names) {
		installed := name
		if name == "ginstall" {
			installed = "install"
		}
		for _, bin := range []string{"/usr/bin", "/bin", "/usr/sbin"} {
			path := filepath.Join(bin, installed)
			if _, err := os.Stat(path); err != nil {
				continue
			}
			os.Remove(filepath.Join(dir, "src", name))
			if err := os.Symlink(path, filepath.Join(dir, "src", name)); err != nil {
				return err
			}
			programs = append(programs, name)
			break
		}
	}
	if len(programs) < 90 {
		return fmt.Errorf("%d programs of coreutils are installed", len(programs))
	}
	for name, text := range map[string]string{
		"config.h":      coreutilsConfig,
		"src/getlimits": getlimits,
		"oracle.sh":     fmt.Sprintf(coreutilsRun, dir, strings.Join(programs, " ")),
	} {
		os.Remove(filepath.Join(dir, name))
		if err := m.write(filepath.Join(dir, name), text, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// coreutilsConfig is what tests look up in config.h, as Debian configures.
const coreutilsConfig = `#define HAVE_GETMNTENT 1
#define HAVE_INOTIFY 1
#define HAVE_LINKAT 1
#define HAVE_LUTIMES 1
#define HAVE_MNTENT_H 1
#define HAVE_OPENAT 1
#define HAVE_PTHREAD_T 1
#define HAVE_SELINUX_SELINUX_H 1
#define HAVE_SETGROUPS 1
#define HAVE_UTIMENSAT 1
#define USE_ACL 1
#define USE_XATTR 1
`

// getlimits prints what the source's helper of that name prints here; building
// it would take a minute of configure.
const getlimits = `#!/bin/sh
cat <<E
CHAR_MAX=127 CHAR_OFLOW=128 CHAR_MIN=-128 CHAR_UFLOW=-129
SCHAR_MAX=127 SCHAR_OFLOW=128 SCHAR_MIN=-128 SCHAR_UFLOW=-129
UCHAR_MAX=255 UCHAR_OFLOW=256
SHRT_MAX=32767 SHRT_OFLOW=32768 SHRT_MIN=-32768 SHRT_UFLOW=-32769
INT_MAX=2147483647 INT_OFLOW=2147483648 INT_MIN=-2147483648 INT_UFLOW=-2147483649
UINT_MAX=4294967295 UINT_OFLOW=4294967296
LONG_MAX=9223372036854775807 LONG_OFLOW=9223372036854775808
LONG_MIN=-9223372036854775808 LONG_UFLOW=-9223372036854775809
ULONG_MAX=18446744073709551615 ULONG_OFLOW=18446744073709551616
SIZE_MAX=18446744073709551615 SIZE_OFLOW=18446744073709551616
SSIZE_MAX=9223372036854775807 SSIZE_OFLOW=9223372036854775808
SSIZE_MIN=-9223372036854775808 SSIZE_UFLOW=-9223372036854775809
TIME_T_MAX=9223372036854775807 TIME_T_OFLOW=9223372036854775808
TIME_T_MIN=-9223372036854775808 TIME_T_UFLOW=-9223372036854775809
UID_T_MAX=4294967295 UID_T_OFLOW=4294967296
GID_T_MAX=4294967295 GID_T_OFLOW=4294967296
PID_T_MAX=2147483647 PID_T_OFLOW=2147483648
PID_T_MIN=-2147483648 PID_T_UFLOW=-2147483649
OFF_T_MAX=9223372036854775807 OFF_T_OFLOW=9223372036854775808
OFF_T_MIN=-9223372036854775808 OFF_T_UFLOW=-9223372036854775809
INTMAX_MAX=9223372036854775807 INTMAX_OFLOW=9223372036854775808
INTMAX_MIN=-9223372036854775808 INTMAX_UFLOW=-9223372036854775809
UINTMAX_MAX=18446744073709551615 UINTMAX_OFLOW=18446744073709551616
FLT_MIN=1.17549435e-38 FLT_MAX=3.40282347e+38
DBL_MIN=2.2250738585072014e-308 DBL_MAX=1.7976931348623157e+308
LDBL_MIN=3.3621031431120935063e-4932 LDBL_MAX=1.1897314953572317650e+4932
E
`

// coreutilsRun runs one test as TESTS_ENVIRONMENT and the LOG_COMPILERs of
// tests/local.mk say; its arguments are the directory and the programs.
const coreutilsRun = `#!/bin/sh
. ./tests/lang-default
. ./tests/envvar-check
d=%s
export VERSION=9.1 PACKAGE_VERSION=9.1 LOCALE_FR=none LOCALE_FR_UTF8=none
export abs_top_builddir=$d abs_top_srcdir=$d abs_srcdir=$d srcdir=. top_srcdir=.
export built_programs='%s'
export fail=0 host_os=linux-gnu host_triplet=x86_64-pc-linux-gnu
export CONFIG_HEADER=$d/config.h CC=gcc AWK=awk EGREP='grep -E' EXEEXT= MAKE=make PERL=perl SHELL=/bin/sh
export CU_TEST_NAME=oracle,$(echo $1 | tr / -)
export PATH=$d/src:$PATH
exec 9>&2
case $1 in
*.xpl) exec perl -T -w -I./tests -MCuSkip -MCoreutils -M"CuTmpdir qw($1)" $1 ;;
*.pl) exec perl -w -I./tests -MCuSkip -MCoreutils -M"CuTmpdir qw($1)" $1 ;;
*) exec sh $1 ;;
esac
`
