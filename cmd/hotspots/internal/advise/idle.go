package advise

import (
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	noted "github.com/dynprof/dynprof/internal/table/heat"
)

// kindUnread is of memory that was written, and that nothing has read.
const kindUnread = "unread"

// leastIdle is the bytes of what advice is given on.
const leastIdle = noted.PageSize

// idler is a variable, or who asks for blocks, and which bytes of it are of no use.
type idler struct {
	memory, name string
	bytes, of    uint64 // and all of it has so many: at a time
	whole        uint64 // pages of the bytes that have nothing else
	absent       uint64 // pages of it that nothing can have touched: they are not in memory at the end
	site         bool
}

// idle advises on variables and blocks that nothing touches, or reads. What is not seen may have done so.
func (l *List) idle(t *table.Table, f *noted.File, flow *table.Flow, calls []uint64, unseen []string) error {
	o, err := heat.ObjectsOf(t, heat.Show{})
	if err != nil {
		return err
	}
	untouched, unread := idlers(o, presenceOf(f))
	if len(unseen) > 0 {
		for _, site := range []bool{false, true} {
			h := Hidden{Memory: map[bool]string{false: "variables", true: "blocks of malloc"}[site], Objects: unseen}
			for _, i := range untouched {
				if i.site == site {
					h.Bytes += i.bytes
				}
			}
			if h.Bytes > 0 {
				l.Hidden = append(l.Hidden, h)
			}
		}
		return nil
	}
	d := doubtsOf(t, flow, calls)
	for _, i := range untouched {
		l.Advice = append(l.Advice, i.untouched(d))
	}
	for _, i := range unread {
		l.Advice = append(l.Advice, i.unread(d))
	}
	return nil
}

// idlers are those of which enough is of no use. What lies where nothing can be written takes no memory of its own,
// and what is the dynamic linker's was touched before anything was seen.
func idlers(o *heat.Objects, p presence) (untouched, unread []idler) {
	for i := range o.Variables {
		v := &o.Variables[i]
		if v.Constant || isLinker(v.Memory) {
			continue
		}
		one := idler{memory: v.Memory, name: v.Name, of: v.Bytes}
		if one.bytes = v.Bytes; v.Touched == 0 && v.Bytes >= leastIdle {
			one.absent = p.absent(uint64(v.Address), uint64(v.Address)+v.Bytes)
			untouched = append(untouched, one)
		}
		if one.bytes, one.absent = v.Unread*o.Granule, 0; one.bytes >= leastIdle {
			unread = append(unread, one)
		}
	}
	if o.Allocs == nil {
		return untouched, unread
	}
	absent := make([]uint64, len(o.Allocs.Sites))
	for _, b := range o.Allocs.Blocks {
		if b.Live {
			absent[b.Caller] += p.absent(b.Address, b.Address+b.Bytes)
		}
	}
	for i := range o.Allocs.Sites {
		s := &o.Allocs.Sites[i]
		one := idler{memory: s.Memory, name: s.String(), of: s.Peak, site: true}
		if one.bytes = s.Most.Untouched; one.bytes >= leastIdle {
			one.whole, one.absent = s.Most.Unmade, absent[i]
			untouched = append(untouched, one)
		}
		if one.bytes, one.whole, one.absent = s.Most.Unread, 0, 0; one.bytes >= leastIdle {
			unread = append(unread, one)
		}
	}
	return untouched, unread
}

func isLinker(path string) bool {
	name := filepath.Base(path)
	return strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") || strings.HasPrefix(name, "ld.so")
}

// presence is what is mapped at the end, and which pages were touched, by address.
type presence struct {
	maps    []noted.Mapping
	touched []noted.Range
}

func presenceOf(f *noted.File) (p presence) {
	if f.Ended && !f.Untold {
		p = presence{f.Mappings, f.In(noted.Page).WithinOf(noted.All, noted.WasRead|noted.WasWritten)}
	}
	return p
}

// untouched is how many of some pages were not touched.
func (p *presence) untouched(first, end uint64) uint64 {
	n := end - first
	i := sort.Search(len(p.touched), func(i int) bool { return p.touched[i].First+p.touched[i].Pages > first })
	for ; i < len(p.touched) && p.touched[i].First < end; i++ {
		n -= p.touched[i].Clip(first, end).Pages
	}
	return n
}

// absent is how many whole pages of some bytes were touched by nobody: as many as were not by what is seen, but for
// those that are in memory all the same, wherever in the mapping they are.
func (p *presence) absent(from, to uint64) (n uint64) {
	first, end := (from+noted.PageSize-1)/noted.PageSize, to/noted.PageSize
	i := sort.Search(len(p.maps), func(i int) bool { return p.maps[i].End > from })
	for ; i < len(p.maps) && p.maps[i].Start < to; i++ {
		m := &p.maps[i]
		low, high := m.Start/noted.PageSize, m.End/noted.PageSize
		resident, touched := m.Resident/noted.PageSize, high-low-p.untouched(low, high)
		if low, high = max(low, first), min(high, end); low < high && !m.Gone {
			some := p.untouched(low, high)
			n += some - min(some, resident-min(resident, touched))
		}
	}
	return n
}

// doubts is what may have touched memory, and where is not known.
type doubts struct {
	read, written uint64   // bytes that the kernel has read of the program's memory, and written there; 0: no such call was made
	reads, writes []string // functions that may have read memory, and written it, of which it is in neither
}

// Functions of the C library whose system calls read and write as many bytes of memory as the program likes. What those
// of the first four move is known, of sockets where their calls are added up; of the last two it is not (docs/heat.md).
var (
	sends     = []string{"send", "sendmmsg", "sendmsg", "sendto"}
	receives  = []string{"recv", "recvfrom", "recvmmsg", "recvmsg"}
	writers   = []string{"pwrite", "pwrite64", "pwritev", "pwritev2", "pwritev64", "pwritev64v2", "write", "writev"}
	readers   = []string{"pread", "pread64", "preadv", "preadv2", "preadv64", "preadv64v2", "read", "readv"}
	senders   = []string{"aio_write", "aio_write64", "io_submit", "ioctl", "mq_send", "msgsnd", "process_vm_writev", "shmat", "syscall", "vmsplice"}
	receivers = []string{"aio_read", "aio_read64", "io_submit", "ioctl", "mq_receive", "msgrcv", "process_vm_readv", "shmat", "syscall"}
)

// doubtsOf are those of a program of which all objects are seen: system calls, and functions that do not run as copies,
// but for those that only make system calls, and the dynamic linker's.
func doubtsOf(t *table.Table, flow *table.Flow, calls []uint64) *doubts {
	d, sockets := &doubts{}, heat.SocketsOf(t)
	var reads, writes, sent, received bool // by which calls
	for i := range t.Functions {
		f := &t.Functions[i]
		if calls[i] == 0 || isLinker(t.Objects[f.Object].Path) {
			continue
		}
		if f.Blocks != ledger.ReasonKernelSite && !heat.RunsAsCopy(t, flow, uint32(i)) {
			name := symname.Display(f.Name, t.Objects[f.Object].Path, f.Address, true) + ", which is not seen"
			d.reads, d.writes = append(d.reads, name), append(d.writes, name)
		}
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			name = strings.TrimPrefix(strings.TrimLeft(name, "_"), "libc_")
			isSend, isReceive := slices.Contains(sends, name), slices.Contains(receives, name)
			reads, writes = reads || slices.Contains(readers, name), writes || slices.Contains(writers, name)
			sent, received = sent || isSend, received || isReceive
			if slices.Contains(senders, name) || isSend && sockets == nil {
				d.reads = append(d.reads, name)
			}
			if slices.Contains(receivers, name) || isReceive && sockets == nil {
				d.writes = append(d.writes, name)
			}
		}
	}
	if writes {
		d.read = t.Header.Transfers.Written
	}
	if reads {
		d.written = t.Header.Transfers.Read
	}
	if sent && sockets != nil {
		d.read += sockets.LoadedBytes
		d.reads = append(d.reads, untold("send", sockets.SendsUntold)...)
	}
	if received && sockets != nil {
		d.written += sockets.StoredBytes
		d.writes = append(d.writes, untold("recv", sockets.ReceivesUntold)...)
	}
	return d
}

// untold is a doubt where it is not known how much some calls have moved.
func untold(name string, calls uint64) []string {
	if calls == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s of %s and theirs that moved what is not known", figures.Count(calls, "call"), name)}
}

// unless says what may have touched so many bytes, and how sure it is that nothing has.
func unless(bytes, by uint64, did string, others []string) (confidence, text string) {
	slices.Sort(others)
	if others = slices.Compact(others); by > 0 {
		others = append([]string{fmt.Sprintf("read, write, recv, send and their like, which have %s %s somewhere, dynprof's own among them", did, figures.Count(by, "byte"))}, others...)
	}
	switch {
	case len(others) == 0:
		return confident, ""
	case by >= bytes || by == 0 || len(others) > 1:
		confidence = doubtful
	default:
		confidence = confident
	}
	return confidence, ", unless it was one of: " + some(others)
}

func (i *idler) untouched(d *doubts) Advice {
	a := Advice{Kind: kindUntouched, Memory: i.memory, Name: i.name, Bytes: i.bytes, Before: i.of, After: i.of - min(i.of, i.bytes), Confidence: confident, Proof: "no slice has any of it", Do: "drop it, or make it smaller"}
	if a.Evidence = "nothing has touched it"; i.site {
		a.Evidence = "so many bytes of blocks that were there at a time were not touched as long as they were"
		a.AtMost = (i.bytes - i.whole*noted.PageSize) / noted.PageSize
		a.Do = "ask for less, or when it is needed"
	}
	if left := i.bytes - min(i.bytes, i.absent*noted.PageSize); left >= 2*noted.PageSize { // more than its first and its last page have of it
		var text string
		a.Confidence, text = unless(left, d.read+d.written, "moved", slices.Concat(d.reads, d.writes))
		a.Evidence += text
	}
	if i.absent > 0 {
		a.Proof += fmt.Sprintf("; /proc/PID/smaps at the end: %s of it not in memory", figures.Count(i.absent, "page"))
	}
	return a
}

func (i *idler) unread(d *doubts) Advice {
	a := Advice{Kind: kindUnread, Memory: i.memory, Name: i.name, Bytes: i.bytes, Before: i.of, After: i.of - min(i.of, i.bytes), AtMost: i.bytes / noted.PageSize, Proof: "no slice has a read of them", Do: "do not keep what nobody asks for"}
	if a.Evidence = "so many bytes of it were written, and nothing has read them"; i.site {
		a.Evidence = "so many bytes of blocks that were there at a time were written, and nothing has read them as long as they were"
	}
	var text string
	a.Confidence, text = unless(i.bytes, d.read, "read", slices.Clone(d.reads))
	a.Evidence += text
	return a
}
