package selftime

import (
	"encoding/hex"
	"os"
	"sort"
	"syscall"

	"github.com/dynprof/dynprof/elfscan"
)

// files are objects that are not in a table's ledger, by path, read when they are asked for.
type files map[string]*object

// object is what an ELF file says of its functions.
type object struct {
	*elfscan.Object
	inode   uint64
	buildID string
}

// read reads a file; nil if that cannot be done. inode is that of the file that was mapped,
// if it is known: another one of that name says nothing of it.
func (f files) read(path string, inode uint64) *object {
	o, ok := f[path]
	if !ok {
		o = readObject(path)
		f[path] = o
	}
	if o == nil || inode != 0 && o.inode != inode {
		return nil
	}
	return o
}

func readObject(path string) *object {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return nil
	}
	scan, err := elfscan.Scan(file, st.Size())
	if err != nil {
		return nil
	}
	return &object{scan, st.Sys().(*syscall.Stat_t).Ino, hex.EncodeToString(scan.BuildID)}
}

// address is the ELF virtual address of an offset in the file.
func (o *object) address(offset uint64) (addr uint64, ok bool) {
	for _, s := range o.Segments {
		if offset >= s.Offset && offset < s.Offset+s.FileSize {
			return s.Addr + offset - s.Offset, true
		}
	}
	return 0, false
}

// function is the one that an address is in; nil if it is in none.
func (o *object) function(addr uint64) *elfscan.Function {
	i := sort.Search(len(o.Functions), func(i int) bool { return o.Functions[i].Addr > addr }) - 1
	if i < 0 || addr-o.Functions[i].Addr >= o.Functions[i].Size {
		return nil
	}
	return &o.Functions[i]
}
