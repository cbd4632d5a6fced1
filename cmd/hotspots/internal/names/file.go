package names

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/bodyhash"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/match"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// File is a file of names:
//
//	# remark
//	0xADDRESS NAME          of the executable
//	OBJECT+0xADDRESS NAME   of an object, by its file name or its build ID
//	build OBJECT            what follows is of one build, by rising address
//	code PLAIN LINKED NAME  the two hashes of package bodyhash
type File struct {
	path      string
	addresses map[string]map[uint64]string // by object; "" is the executable
	builds    []build
}

// build is the functions of one that is known by its code.
type build struct{ functions []match.Function }

// never is later than any change of a file.
var never = time.Unix(1<<40, 0)

// Bounds of files of names.
const (
	maxFile = 512 << 20
	maxLine = 1 << 20
)

// ReadFile reads a file of names.
func ReadFile(path string) (*File, error) {
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if fi, err := r.Stat(); err != nil || fi.Size() > maxFile {
		return nil, fmt.Errorf("%s: more than %d MB are no file of names: %w", path, maxFile>>20, err)
	}
	return Read(path, io.LimitReader(r, maxFile))
}

// Read reads a file of names from r.
func Read(path string, r io.Reader) (*File, error) {
	f := &File{path: path, addresses: map[string]map[uint64]string{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := f.line(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func (f *File) line(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "build":
		f.builds = append(f.builds, build{})
		return nil
	case "code":
		return f.code(rest)
	}
	object, address := "", word
	if at := strings.LastIndex(word, "+0x"); at >= 0 {
		object, address = word[:at], word[at+1:]
	}
	digits, hexadecimal := strings.CutPrefix(address, "0x")
	addr, err := strconv.ParseUint(digits, 16, 64)
	if !hexadecimal || err != nil || rest == "" {
		return fmt.Errorf("%.60q is not 0xADDRESS NAME, OBJECT+0xADDRESS NAME, or a line of hotspots names learn", line)
	}
	if f.addresses[object] == nil {
		f.addresses[object] = map[uint64]string{}
	}
	f.addresses[object][addr] = rest
	return nil
}

// code reads PLAIN LINKED NAME. The order of lines stands for that of addresses.
func (f *File) code(rest string) error {
	fields := strings.SplitN(rest, " ", 3)
	if len(fields) != 3 || len(f.builds) == 0 {
		return fmt.Errorf("%.60q is not PLAIN LINKED NAME below a build", rest)
	}
	plain, err := bodyhash.Parse(fields[0])
	if err != nil {
		return err
	}
	linked, err := bodyhash.Parse(fields[1])
	if err != nil {
		return err
	}
	b := &f.builds[len(f.builds)-1]
	b.functions = append(b.functions, match.Function{
		Address: uint64(len(b.functions)), Name: strings.TrimSpace(fields[2]), Body: bodyhash.Body{Plain: plain, Linked: linked},
	})
	return nil
}

// of are the names by address of an object.
func (f *File) of(o *layout.Object) map[uint64]string {
	if names := f.addresses[o.BuildID]; o.BuildID != "" && names != nil {
		return names
	}
	if names := f.addresses[filepath.Base(o.Path)]; names != nil {
		return names
	}
	if o.Flags&layout.ObjMain != 0 {
		return f.addresses[""]
	}
	return nil
}

// Learn writes the names of a build's functions, to name those of another by. It returns how
// many there are.
func Learn(w io.Writer, path string, find *debugfile.Finder) (int, error) {
	o, err := objcode.LoadFile(path)
	if err != nil {
		return 0, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return 0, err
	}
	symbols, err := find.Symbols(&layout.Object{Path: absolute, BuildID: hex.EncodeToString(o.BuildID)}, never)
	if err != nil {
		return 0, err
	}
	var functions []bodyhash.Function
	var named []string
	n := 0
	for _, f := range o.Functions {
		if f.Excluded.Excluded() {
			continue
		}
		name := f.Name
		if list := symbols[f.Addr]; name == "" && len(list) > 0 {
			name = list[0]
		}
		if strings.ContainsAny(name, "\r\n") || len(name) > maxLine/2 {
			name = ""
		}
		if name != "" {
			n++
		}
		functions, named = append(functions, bodyhash.Function{Address: f.Addr, Size: uint32(f.Size)}), append(named, name)
	}
	if n == 0 {
		return 0, fmt.Errorf("%s has no names of functions, nor is there a file of debug information with any: it is stripped", path)
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "build %s %x\n", strings.Map(oneLine, filepath.Base(path)), o.BuildID)
	for i, b := range bodyhash.Of(o, functions) {
		if named[i] != "" && b.Known() {
			fmt.Fprintf(out, "code %v %v %s\n", b.Plain, b.Linked, named[i])
		}
	}
	return n, out.Flush()
}

func oneLine(r rune) rune {
	if r < ' ' {
		return '?'
	}
	return r
}
