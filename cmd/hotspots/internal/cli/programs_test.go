package cli

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func write(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // past the umask
		t.Fatal(err)
	}
	return path
}

// elf32 is a whole 32-bit program that exits with status 7.
func elf32() string {
	const base, headers = 0x08048000, 52 + 32
	code := "\xb8\x01\x00\x00\x00\xbb\x07\x00\x00\x00\xcd\x80" // mov $1,%eax; mov $7,%ebx; int $0x80
	size := uint32(headers + len(code))
	var b []byte
	le := binary.LittleEndian
	b = append(b, "\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	for _, half := range []uint16{uint16(elf.ET_EXEC), uint16(elf.EM_386)} {
		b = le.AppendUint16(b, half)
	}
	for _, word := range []uint32{1, base + headers, 52, 0, 0} {
		b = le.AppendUint32(b, word)
	}
	for _, half := range []uint16{52, 32, 1, 0, 0, 0} {
		b = le.AppendUint16(b, half)
	}
	for _, word := range []uint32{1, 0, base, base, size, size, 5, 0x1000} {
		b = le.AppendUint32(b, word)
	}
	return string(b) + code
}

// Programs that cannot be counted run all the same, after one line; with
// --strict they do not run.
func TestUncountablePrograms(t *testing.T) {
	source := write(t, "exit.c", "int main(void) { return 7; }", 0o600)
	static := compile(t, source, "-static")
	staticPIE := compile(t, source, "-static-pie")
	musl := compile(t, source, "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1")
	bits32 := write(t, "bits32", elf32(), 0o755)
	foreign := write(t, "foreign", strings.Replace(elf32(), "\x02\x00\x03\x00", "\x02\x00\xb7\x00", 1), 0o755)
	for _, row := range []struct {
		name string
		argv []string
		says string
	}{
		{"static", []string{static}, "statically linked"},
		{"static-pie", []string{staticPIE}, "statically linked"},
		{"32-bit", []string{bits32}, "32-bit"},
		{"another machine", []string{foreign}, "another machine (EM_AARCH64)"},
		{"musl", []string{musl}, "musl"},
		{"set-user-ID", []string{setUserID(t), "--help"}, "set-user-ID"},
		{"a script of a static program", []string{write(t, "s", "#!"+static+" x\n", 0o755)}, "statically linked"},
		{"a script through env", []string{write(t, "s", "#! /usr/bin/env "+static+"\n", 0o755)}, "statically linked"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.says == "set-user-ID" {
				needSetUserID(t)
			}
			direct := exec.Command(row.argv[0], row.argv[1:]...)
			want := 126 // the kernel refuses it
			if direct.Run(); direct.ProcessState != nil {
				want = direct.ProcessState.ExitCode()
			} else if row.name == "musl" {
				want = 127 // its interpreter is missing
			}
			_, errOut, status := output(t, command(t, row.argv...))
			says := row.says
			if want == 126 {
				says = "cannot be executed" // no need to say more
			}
			if status != want || !strings.Contains(errOut, says) || strings.Count(errOut, "\n") > 1 && want < 126 {
				t.Errorf("status %d, want %d: %s", status, want, errOut)
			}
			_, errOut, status = output(t, command(t, append([]string{"--strict"}, row.argv...)...))
			if status != 125 || !strings.Contains(errOut, row.says) || strings.Count(errOut, "\n") != 1 {
				t.Errorf("--strict: status %d: %s", status, errOut)
			}
		})
	}
}

// needSetUserID skips where the kernel gives no rights by such files, and
// hotspots rightly counts them; TestRaises in launch has the rest.
func needSetUserID(t *testing.T) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "NoNewPrivs:\t1") {
		t.Skip("no_new_privs is set here: no program is set-user-ID")
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(t.TempDir(), &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Flags&0x2 != 0 {
		t.Skip("the temporary directory is mounted nosuid")
	}
}

// setUserID is a program of another user's that takes that user's rights.
func setUserID(t *testing.T) string {
	if os.Getuid() != 0 {
		return "/usr/bin/chsh"
	}
	b, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, "true", string(b), 0o755)
	if err := os.Chown(path, 1, -1); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	return path
}

// Scripts run with the arguments that the kernel and env would give them.
func TestScripts(t *testing.T) {
	show := "printf '%s|' \"$0\" \"$@\"; echo; tr '\\0' '|' </proc/$$/cmdline; echo\n"
	for _, row := range []struct{ name, script string }{
		{"sh", "#!/bin/sh\n" + show},
		{"sh with an option", "#!/bin/sh -u\n" + show},
		{"env", "#!/usr/bin/env sh\n" + show},
		{"env -S", "#!/usr/bin/env -S sh -u -e\n" + show},
		{"env with a variable", "#!/usr/bin/env -S X=1 sh\n" + show},
		{"no interpreter named", show},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := write(t, "script", row.script, 0o755)
			want, err := exec.Command("/usr/bin/env", path, "a b", "c").Output()
			if err != nil {
				t.Fatal(err)
			}
			got, errOut, status := output(t, command(t, path, "a b", "c"))
			if got != string(want) || status != 0 {
				t.Errorf("status %d, got\n%swant\n%sstderr %s", status, got, want, errOut)
			}
		})
	}
}

// A sanitizer's run-time library ends the program unless it is the first.
func TestSanitizerIsPreloadedFirst(t *testing.T) {
	source := write(t, "show.c", "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts(getenv(\"LD_PRELOAD\")); puts(getenv(\"DYNPROF_PRELOADED\")); return 7; }", 0o600)
	for flag, lib := range map[string]string{"-fsanitize=address": "libasan.so", "-fsanitize=thread": "libtsan.so"} {
		t.Run(lib, func(t *testing.T) {
			out, errOut, status := output(t, command(t, compile(t, source, flag)))
			lines := strings.Split(out, "\n")
			if status != 7 || !strings.HasPrefix(out, lib) || lines[0] != lines[1]+":"+fakeLibrary() {
				t.Errorf("status %d, stdout %q, stderr %s", status, out, errOut)
			}
		})
	}
}
