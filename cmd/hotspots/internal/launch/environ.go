package launch

import (
	"strings"

	"github.com/dynprof/dynprof/internal/setting"
)

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

func variable(id setting.ID) string { return setting.All[id].Variable }
