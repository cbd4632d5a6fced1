package main

import (
	"path/filepath"
	"strings"
)

var python = &suite{
	name:  "python",
	about: "CPython 3.11's own tests (Debian's libpython3.11-testsuite) on Debian's python3.11",
	least: 6000, leastQuick: 1300,
	prepare: preparePython,
}

// Modules with what hurts an instrumented program: signals, forks, threads,
// foreign functions, stack depth, limits, exceptions, loaded libraries.
var (
	pythonQuick = strings.Fields(`test_signal test_posix test_fork1 test_generators test_exceptions test_struct
		test_json test_re test_ctypes test_hashlib test_mmap`)
	pythonSlow = strings.Fields(`test_subprocess test_threading test_faulthandler test_os test_socket test_ssl
		test_sqlite3 test_zlib test_lzma test_pickle test_decimal test_float test_math test_coroutines
		test_descr test_traceback test_gc test_import test_capi test_select test_time test_threadsignals
		test_queue test_concurrent_futures test_multiprocessing_fork test_embed`)
)

func preparePython(m *machine) ([]unit, error) {
	if err := needs("/usr/bin/python3.11", "/usr/lib/python3.11/test/test_signal.py"); err != nil {
		return nil, err
	}
	var units []unit
	add := func(names []string, slow bool) {
		for _, name := range names {
			dir := filepath.Join(m.work, name)
			units = append(units, unit{
				name: name, dir: dir, slow: slow, read: readJUnit("junit.xml"),
				args: []string{"/usr/bin/python3.11", "-m", "test", "--junit-xml", filepath.Join(dir, "junit.xml"), name},
				env:  []string{"PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1"},
			})
		}
	}
	add(pythonQuick, false)
	add(pythonSlow, true)
	for _, u := range units {
		if err := m.mkdir(u.dir); err != nil {
			return nil, err
		}
	}
	return units, nil
}
