package doctor

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// Program says what limits the counting of a program, by its file alone.
func Program(name, search string) []Finding {
	p, err := launch.Resolve([]string{name}, search)
	if err != nil {
		return []Finding{{Fatal, err.Error(), "it does not run", "name a program in PATH, or its file"}}
	}
	if p.Why != "" && !p.Outside {
		return []Finding{{Fatal, p.Why, "it runs uncounted", "count a dynamically linked build for x86-64 that is not set-user-ID"}}
	}
	all := []Finding{}
	if p.Outside {
		all = append(all, Finding{Limit, p.Why, "it is counted by ptrace, all its functions, those of libc too: no trips, traps, translators", "count a build that is dynamically linked with glibc"})
	}
	if p.Note != "" {
		all = append(all, Finding{Limit, p.Note, "the program behind it is not counted", "hotspots run --follow-exec"})
	}
	if more := object(p.Path); len(more) > 0 {
		return append(all, more...)
	}
	return append(all, fine(p.Path+" can be counted"))
}

// object says what the file of a program tells.
func object(path string) (all []Finding) {
	content, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(content, []byte(elf.ELFMAG)) {
		return nil // a script
	}
	scan, err := elfscan.Scan(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return []Finding{{Fatal, fmt.Sprintf("%s: %v", path, err), "it runs uncounted", "hotspots coverage says more"}}
	}
	o := stubgen.FromFile(scan, content, 0)
	s := survey.New(o, 0)
	if s.UsesGS() {
		all = append(all, Finding{Limit, path + " uses the GS segment", "all its threads count in one row, by locked instructions: slower, and report --by thread knows no threads", ""})
	}
	named := 0
	for i := range o.Functions {
		if o.Functions[i].Name != "" {
			named++
		}
	}
	if n := len(o.Functions); n > 0 && named*10 < n {
		all = append(all, Finding{Limit, fmt.Sprintf("%s: %d of %d functions have names", path, named, n), "the others are shown as object+0xaddress", "install its -dbgsym package, or count a build that is not stripped"})
	}
	return all
}
