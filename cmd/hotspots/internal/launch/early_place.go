//lint:file-ignore U1000 all of it is reached from entry_amd64.s

package launch

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

// texts is room for strings that end with a zero byte.
type texts struct {
	bytes [48 << 10]byte
	used  int
}

// join puts a string together of some; nil if there is no room.
func (t *texts) join(a, b, c string) *byte {
	if len(a)+len(b)+len(c)+1 > len(t.bytes)-t.used {
		return nil
	}
	start := t.used
	t.used += copy(t.bytes[t.used:], a)
	t.used += copy(t.bytes[t.used:], b)
	t.used += copy(t.bytes[t.used:], c)
	t.bytes[t.used] = 0
	t.used++
	return &t.bytes[start]
}

// number is n in digits.
func (t *texts) number(n int) string {
	var digits [20]byte
	at := len(digits)
	for at--; n > 9 && at > 0; at-- {
		digits[at] = byte('0' + n%10)
		n /= 10
	}
	digits[at] = byte('0' + n)
	if len(digits)-at >= len(t.bytes)-t.used {
		return ""
	}
	start := t.used
	t.used += copy(t.bytes[t.used:], digits[at:])
	t.bytes[t.used] = 0
	t.used++
	return text(&t.bytes[start])
}

// clean reports whether a path is absolute and as package filepath would write it.
func clean(path string) bool {
	if len(path) < 2 || len(path) > unix.PathMax/2 || path[0] != '/' {
		return false
	}
	name := 1 // where the name begins
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if n := path[name:i]; n == "" || n == "." || n == ".." {
			return false
		}
		name = i + 1
	}
	return true
}

// plain reports whether a path is clean and nobody reads anything into it: LD_PRELOAD,
// or the name of an output.
func plain(path string) bool {
	for i := range len(path) {
		switch path[i] {
		case ' ', ':', '$', '%':
			return false
		}
	}
	return clean(path)
}

// isDirectory reports whether a path, whose last name is no symbolic link, is a
// directory of this user, to which the modes are not given.
func (a *preparation) isDirectory(path *byte, without uint32) bool {
	return path != nil && callStat(unix.SYS_NEWFSTATAT, unix.AT_FDCWD, path, &a.stat, unix.AT_SYMLINK_NOFOLLOW) == 0 &&
		a.stat.Mode&syscall.S_IFMT == syscall.S_IFDIR && int(a.stat.Uid) == a.uid && a.stat.Mode&without == 0
}

// findLibrary looks whether the library is at one of the places where extract puts it, as
// it was put there.
func (a *preparation) findLibrary() bool {
	return a.libraryBelow(a.cacheDir(), 0o022) || a.libraryBelow(a.join("/tmp/dynprof-", a.number(a.uid), ""), 0o077)
}

// cacheDir is the place in the user's cache directory; nil if there is none.
func (a *preparation) cacheDir() *byte {
	switch {
	case a.cache != nil && text(a.cache) != "":
		return a.join(text(a.cache), "/dynprof", "")
	case a.home != nil && text(a.home) != "":
		return a.join(text(a.home), "/.cache/dynprof", "")
	}
	return nil
}

// libraryBelow looks into a place, to which nobody is given the modes.
func (a *preparation) libraryBelow(base *byte, without uint32) bool {
	if base == nil || !plain(text(base)) || !a.isDirectory(base, without) {
		return false
	}
	dir := a.join(text(base), "/", carried[:sumNamed])
	const noexec = 0x8 // ST_NOEXEC, statfs(2)
	if !a.isDirectory(dir, 0o022) || callFs(unix.SYS_STATFS, dir, &a.fs, 0, 0) != 0 || a.fs.Flags&noexec != 0 {
		return false
	}
	a.library = a.join(text(dir), "/", libraryName)
	return a.library != nil && callStat(unix.SYS_NEWFSTATAT, unix.AT_FDCWD, a.library, &a.stat, unix.AT_SYMLINK_NOFOLLOW) == 0 && a.asPut()
}

// asPut does what checkOwn and Carried.is do.
func (a *preparation) asPut() bool {
	size := int64(0)
	for i := sumDigits; i < len(carried); i++ {
		size = 10*size + int64(carried[i]-'0')
	}
	s := &a.stat
	return s.Mode&syscall.S_IFMT == syscall.S_IFREG && int(s.Uid) == a.uid && s.Mode&0o022 == 0 &&
		s.Size == size && s.Mtim.Sec == stampOf(carried) && s.Mtim.Nsec == 0
}

// place says where the table and the note go.
func (a *preparation) place() bool {
	base := a.runtimeDir()
	if base == nil || !plain(text(base)) || !a.isDirectory(base, 0o077) {
		return false
	}
	if callOn(unix.SYS_GETRANDOM, &a.random[0], len(a.random), 0, 0) != len(a.random) {
		return false
	}
	a.ID = a.random
	pid := call(unix.SYS_GETPID, 0, 0, 0, 0)
	for i := range 4 { // layout.HdrRunID
		a.ID[len(a.ID)-4+i] = byte(pid >> (8 * i))
	}
	note := a.join(text(base), "/note.", a.hex())
	if note == nil {
		return false
	}
	a.Note = text(note)
	if a.named != nil {
		return a.placeNamed()
	}
	output := a.join(text(base), "/", tabledir.DefaultPattern)
	if output == nil {
		return false
	}
	a.Output = text(output)
	return true
}

// runtimeDir is what tabledir.Default says.
func (a *preparation) runtimeDir() *byte {
	if a.runtime != nil && text(a.runtime) != "" {
		dir := text(a.runtime)
		if !plain(dir) || callStat(unix.SYS_NEWFSTATAT, unix.AT_FDCWD, a.runtime, &a.stat, 0) != 0 {
			return nil
		}
		if a.stat.Mode&syscall.S_IFMT == syscall.S_IFDIR && int(a.stat.Uid) == a.uid {
			return a.join(dir, "/", "dynprof")
		}
	}
	return a.join("/tmp/dynprof-", a.number(a.uid), "")
}

// hex is the number of the run in digits.
func (a *preparation) hex() string {
	const digits = "0123456789abcdef"
	var b [2 * len(a.ID)]byte
	for i, c := range a.ID {
		b[2*i], b[2*i+1] = digits[c>>4], digits[c&15]
	}
	if len(b) >= len(a.bytes)-a.used {
		return ""
	}
	start := a.used
	a.used += copy(a.bytes[a.used:], b[:])
	a.bytes[a.used] = 0
	a.used++
	return text(&a.bytes[start])
}

// placeNamed takes the name that the user gives the output, if there is no file of
// that name.
func (a *preparation) placeNamed() bool {
	path := a.named
	if name := text(path); name != "" && name[0] != '/' {
		if a.cwd == nil || !a.isHere(a.cwd) {
			return false
		}
		path = a.join(text(a.cwd), "/", name)
	}
	if path == nil || !clean(text(path)) {
		return false
	}
	a.Output = text(path)
	varies, ok := varying(a.Output)
	if !ok || varies {
		return ok
	}
	return -callStat(unix.SYS_NEWFSTATAT, unix.AT_FDCWD, path, &a.stat, unix.AT_SYMLINK_NOFOLLOW) == int(syscall.ENOENT)
}

// varying reports whether a pattern has %p or %e. Those that
// are expanded before the program starts are not ok.
func varying(pattern string) (varies, ok bool) {
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' {
			continue
		}
		if i++; i == len(pattern) {
			return false, false
		}
		switch pattern[i] {
		case 'p', 'e':
			varies = true
		default:
			return false, false
		}
	}
	return varies, true
}

var dot = [...]byte{'.', 0}

// isHere reports whether a path is that of the working directory, as os.Getwd does.
func (a *preparation) isHere(path *byte) bool {
	return plain(text(path)) && callStat(unix.SYS_NEWFSTATAT, unix.AT_FDCWD, path, &a.stat, 0) == 0 &&
		callStat(unix.SYS_NEWFSTATAT, unix.AT_FDCWD, &dot[0], &a.other, 0) == 0 &&
		a.stat.Dev == a.other.Dev && a.stat.Ino == a.other.Ino
}

// readEnviron takes over the variables but for LD_PRELOAD. A run that they say
// something about is not a plain one.
func (a *preparation) readEnviron(env []*byte) bool {
	const ours, preload = "DYNPROF_", "LD_PRELOAD="
	for _, p := range env {
		if p == nil {
			break
		}
		v := text(p)
		switch {
		case begins(v, ours), begins(v, preload) && len(v) > len(preload), namesUs(v) >= 0:
			return false
		case begins(v, preload):
			continue
		}
		note(p, v, "PATH=", &a.search)
		note(p, v, "PWD=", &a.cwd)
		note(p, v, "HOME=", &a.home)
		note(p, v, "XDG_CACHE_HOME=", &a.cache)
		note(p, v, "XDG_RUNTIME_DIR=", &a.runtime)
		a.environ[a.variables] = p // there is room for all
		a.variables++
	}
	return true
}

func begins(s, with string) bool { return len(s) >= len(with) && s[:len(with)] == with }

// note keeps the value of the first variable of a name; v is what is at p.
func note(p *byte, v, name string, value **byte) {
	if begins(v, name) && *value == nil {
		*value = behind(p, len(name))
	}
}

// makeEnviron adds what Environ would.
func (a *preparation) makeEnviron() bool {
	ours := 0
	ok := a.add("LD_PRELOAD", text(a.library))
	for i := range setting.All {
		value := ""
		switch id := setting.ID(i); {
		case id == setting.Output:
			value = a.Output
		case id == setting.Note:
			value = a.Note
		case id == setting.RunID:
			value = a.hex()
		case a.On[i]:
			value = "1"
		case id == setting.Pad && ours%2 == 0:
			value = "1"
		}
		if value != "" {
			ok = ok && a.add(setting.All[i].Variable, value)
			ours++
		}
	}
	return ok
}

func (a *preparation) add(name, value string) bool {
	p := a.join(name, "=", value)
	if p == nil || a.variables+1 >= len(a.environ) {
		return false
	}
	a.environ[a.variables] = p
	a.variables++
	return true
}
