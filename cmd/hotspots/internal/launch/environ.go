package launch

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/setting"
)

// Variables is the environment as the kernel has made it. os.Environ leaves out empty strings
// and, of variables of one name, all but the first.
func Variables() []string {
	if stackAtStart == 0 { // a build whose entry is Go's
		return os.Environ()
	}
	const word = 8
	arguments := mem.Array[uint64](uint64(stackAtStart), 1)[0]
	return mem.Strings(uint64(stackAtStart) + (arguments+2)*word) // behind argc, argv and its end
}

// Environ returns base with the library in LD_PRELOAD, after what is there
// already but for first, and the variables of settings, the empty ones left out. All of ours
// come last, in one piece: the library takes them away before main, and a
// program that looks at its environment's memory finds it unbroken.
func Environ(base []string, library string, first []string, settings map[setting.ID]string) []string {
	var env, ours []string
	preload := ""
	for _, v := range base {
		name, value, _ := strings.Cut(v, "=")
		id, known := setting.OfVariable(name)
		_, set := settings[id]
		switch {
		case name == "LD_PRELOAD":
			preload = value // of two, the dynamic linker takes the last
		case known && (id == setting.Library || set):
		case strings.HasPrefix(name, "DYNPROF_"):
			ours = append(ours, v)
		default:
			env = append(env, v)
		}
	}
	var added []string
	for _, lib := range first {
		if !strings.Contains(preload, lib) {
			added = append(added, lib)
		}
	}
	list := append(added[:len(added):len(added)], strings.FieldsFunc(preload, func(r rune) bool { return r == ':' || r == ' ' })...)
	env = append(env, "LD_PRELOAD="+strings.Join(append(list, library), ":"))
	if len(added) > 0 {
		ours = append(ours, variable(setting.Preloaded)+"="+strings.Join(added, ":"))
	}
	for id := range setting.Count {
		if value := settings[id]; value != "" {
			ours = append(ours, variable(id)+"="+value)
		}
	}
	// The library takes away an even number: the auxiliary vector, which
	// follows the environment, consists of pairs of words.
	if taken := len(ours); (preload == "") == (taken%2 == 0) {
		ours = append(ours, variable(setting.Pad)+"=1")
	}
	return append(env, ours...)
}

// ofOurNumber are variables that are for the process of that number only: sockets that
// systemd has opened, a watchdog (sd_listen_fds(3), sd_watchdog_enabled(3),
// systemd.exec(5)). What they say of this process is meant for the program.
var ofOurNumber = [...]string{"LISTEN_PID=", "WATCHDOG_PID=", "SYSTEMD_EXEC_PID="}

// passNumber has the child write its own number into those that have ours.
func passNumber(env []*byte, as *inherited) {
	for i, p := range env {
		if p == nil {
			return
		}
		if n := namesUs(text(p)); n >= 0 {
			v := append([]byte(ofOurNumber[n]), make([]byte, 24)...)
			env[i], as.numbers[n] = &v[0], &v[len(ofOurNumber[n])]
		}
	}
}

// namesUs is which of those a variable is, if it has the number of this process; else -1.
func namesUs(variable string) int {
	for n, name := range ofOurNumber {
		if !begins(variable, name) {
			continue
		}
		number := 0
		for _, c := range []byte(variable[len(name):]) {
			if c < '0' || c > '9' || number > 1<<31 {
				return -1
			}
			number = 10*number + int(c-'0')
		}
		if number == call(unix.SYS_GETPID, 0, 0, 0, 0) {
			return n
		}
	}
	return -1
}

func variable(id setting.ID) string { return setting.All[id].Variable }
