package launch

import "strings"

// Environ returns base with the library in LD_PRELOAD, after what is there
// already but for first, and the DYNPROF_* variables of settings. All of ours
// come last, in one piece: the library takes them away before main, and a
// program that looks at its environment's memory finds it unbroken.
func Environ(base []string, library string, first []string, settings map[string]string) []string {
	var env, ours []string
	preload := ""
	for _, v := range base {
		name, value, _ := strings.Cut(v, "=")
		switch _, set := settings[name]; {
		case name == "LD_PRELOAD":
			preload = value // of two, the dynamic linker takes the last
		case name == LibraryPath || set:
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
		ours = append(ours, Preloaded+"="+strings.Join(added, ":"))
	}
	for _, name := range order {
		if value := settings[name]; value != "" {
			ours = append(ours, name+"="+value)
		}
	}
	// The library takes away an even number: the auxiliary vector, which
	// follows the environment, consists of pairs of words.
	if taken := len(ours); (preload == "") == (taken%2 == 0) {
		ours = append(ours, pad+"=1")
	}
	return append(env, ours...)
}

// Variables that the library reads; docs/environment.md says what they mean.
const (
	Output      = "DYNPROF_OUTPUT"
	Objects     = "DYNPROF_OBJECTS"
	Only        = "DYNPROF_ONLY"
	Skip        = "DYNPROF_SKIP"
	Threshold   = "DYNPROF_THRESHOLD"
	FollowExec  = "DYNPROF_FOLLOW_EXEC"
	PerfMap     = "DYNPROF_PERF_MAP"
	AllowTraps  = "DYNPROF_ALLOW_TRAPS"
	Lock        = "DYNPROF_LOCK"
	DirectCalls = "DYNPROF_DIRECT_CALLS"
	RunID       = "DYNPROF_RUN_ID"
	Control     = "DYNPROF_CONTROL"
	Translator  = "DYNPROF_TRANSLATOR"
	Listen      = "DYNPROF_LISTEN"
	Linger      = "DYNPROF_LINGER"

	// The command that the library executes to listen.
	Hotspots = "DYNPROF_HOTSPOTS"

	// The library ends a program that it cannot count, before main.
	Strict = "DYNPROF_STRICT"

	// File that the library makes when it has said why it counts nothing.
	Note = "DYNPROF_NOTE"

	// What Environ put into LD_PRELOAD besides the library, so that the
	// library can take it out again.
	Preloaded = "DYNPROF_PRELOADED"

	LibraryPath = "DYNPROF_LIBRARY" // not passed on

	pad = "DYNPROF_PAD"
)

// Switch is the setting of a variable that is 1 or not set.
func Switch(on bool) string {
	if on {
		return "1"
	}
	return ""
}

var order = []string{Output, Objects, Only, Skip, Threshold, FollowExec, PerfMap, Control, AllowTraps, DirectCalls, Lock, Translator, Listen, Linger, Hotspots, RunID, Strict, Note}
