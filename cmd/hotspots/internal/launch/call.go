//lint:file-ignore U1000 all of it is reached from entry_amd64.s

package launch

import "syscall"

// System calls for code that runs before the Go runtime: package syscall would tell
// that of them. They return what the kernel does, the negative number of an error.
// One for each kind of pointers, as without package unsafe these are of a type.

//go:noescape
func call(nr, a, b, c, d int) (ret int)

//go:noescape
func callAt(nr, a int, b *byte, c, d int) (ret int)

//go:noescape
func callOn(nr int, a *byte, b, c, d int) (ret int)

//go:noescape
func callTwo(nr int, a, b *byte, c, d int) (ret int)

//go:noescape
func callStat(nr, a int, b *byte, c *syscall.Stat_t, d int) (ret int)

//go:noescape
func callFs(nr int, a *byte, b *syscall.Statfs_t, c, d int) (ret int)

//go:noescape
func callLimit(nr, pid, resource int, to, was *[2]uint64) (ret int)

//go:noescape
func callWait(nr, a int, b *[2]uint32, c, d int) (ret int)

//go:noescape
func callInfo(nr int, a *uint64, b *[infoSize / 4]int32, c, d int) (ret int)

// behind is p with that many bytes skipped.
func behind(p *byte, n int) *byte
