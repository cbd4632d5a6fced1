package test

import (
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// matrix is every combination of compiler and flags.
func matrix() (rows []string) {
	for _, compiler := range []string{"gcc", "clang"} {
		for _, level := range []string{"-O0", "-O1", "-O2", "-O3", "-Os"} {
			for _, pie := range []string{"-fPIE -pie", "-fno-pie -no-pie"} {
				for _, cf := range []string{"-fcf-protection=none", "-fcf-protection=full"} {
					rows = append(rows, strings.Join([]string{compiler, level, pie, cf}, " "))
				}
			}
		}
	}
	return append(rows, "gcc -O2 -fpatchable-function-entry=8", "gcc -O2 -fpatchable-function-entry=16,4",
		"clang -O2 -fpatchable-function-entry=6", "gcc -O2 -pg -mfentry", "gcc -O2 -no-pie -pg", "gcc -O3 -march=native",
		"gcc -O2 -fno-plt -Wl,-z,now", "gcc -O1 -fstack-protector-all -fstack-clash-protection", "gcc -Os -falign-functions=1 -no-pie",
		"gcc -O2 -mno-red-zone -fno-omit-frame-pointer", "gcc -O2 -fno-asynchronous-unwind-tables -ffunction-sections",
		"clang -O2 -mcmodel=large -no-pie", "gcc -O2 -flto", "clang -O1 -Wl,--build-id=none")
}

// madeByCompiler are functions of matrix.cc that are not in its text: deleting
// destructors, a thunk, initialisation, and an inline constructor.
var madeByCompiler = []string{
	"_ZN5ShapeD0Ev", "_ZN6SquareD0Ev", "_ZN6CircleD0Ev", "_ZN6SquareD2Ev", "_ZN6CircleD2Ev",
	"_ZThn8_NK6Circle4nameEv", "_ZN5NamedC2Ev", "_ZN5GuardC2Ei",
	"_GLOBAL__sub_I_matrix.cc", "_GLOBAL__sub_I__ZN5ShapeC2Ev", "_Z41__static_initialization_and_destruction_0ii",
	"__cxx_global_var_init", "__tls_init", "_ZTWL5local", "_ZTHL5local",
	"__clang_call_terminate",
}

// profiled are functions of the C runtime for -pg (gcrt1.o).
var profiled = []string{"__gmon_start__", "atexit"}

// TestMatrix: same output, exact counts, whatever the flags.
func TestMatrix(t *testing.T) {
	lane.Parallel(t)
	programs := []struct {
		language string
		flags    []string
		source   string
		compare  comparison
	}{
		{"C", nil, "matrix.c", comparison{exempt: untallied(profiled...)}},
		{"C++", []string{"-Wl,--no-as-needed", "-lstdc++"}, "matrix.cc", comparison{exempt: untallied(append(madeByCompiler, profiled...)...)}},
	}
	for _, p := range programs {
		for _, row := range lane.Thin(matrix(), 6) {
			t.Run(p.language+" "+row, func(t *testing.T) {
				t.Parallel()
				args := strings.Fields(row)
				program := compile(t, need(t, args[0]), append(args[1:], p.flags...), p.source)
				c := cmd(program)
				c.dir = t.TempDir() // -pg leaves a file
				without := run(t, c)
				with, r := counted(t, c)
				same(t, without, with)
				selfCounting(t, p.compare, with, r)
			})
		}
	}
}
