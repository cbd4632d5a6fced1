package advise

import (
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/file"
	noted "github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// TestAbsent: pages that nothing can have touched are whole ones that are not in memory; those that are, and nothing
// that is seen has touched, may be any of a mapping.
func TestAbsent(t *testing.T) {
	const page = noted.PageSize
	maps := &noted.Maps{Ended: true, Mappings: []noted.Mapping{
		{Start: 10 * page, End: 20 * page, Resident: 2 * page},
		{Start: 20 * page, End: 30 * page, Resident: 5 * page},
		{Start: 40 * page, End: 50 * page},
	}}
	p := presenceOf(fileOf(t, maps, []noted.Range{pagesAt(12, 2, both), pagesAt(22, 2, noted.WasRead), pagesAt(24, 4, noted.WasExecuted)}))
	for _, row := range []struct{ from, to, want uint64 }{
		{10 * page, 20 * page, 8},
		{10*page + 1, 20*page - 1, 6},
		{12 * page, 14 * page, 0},
		{20 * page, 30 * page, 5}, // three more are there
		{20 * page, 22 * page, 0},
		{15 * page, 25 * page, 5},
		{30 * page, 50 * page, 10},
		{30 * page, 40 * page, 0},
		{60 * page, 70 * page, 0},
	} {
		if got := p.absent(row.from, row.to); got != row.want {
			t.Errorf("%+v: %d", row, got)
		}
	}
	killed := *maps
	killed.Ended = false
	untold := *maps
	untold.Untold = true
	for _, m := range []*noted.Maps{&killed, &untold} {
		p := presenceOf(fileOf(t, m))
		if got := p.absent(10*page, 20*page); got != 0 {
			t.Errorf("%d are said to be absent, and what is there is not known", got)
		}
	}
}

// TestUnless: nothing is sure of bytes that system calls may have read.
func TestUnless(t *testing.T) {
	for _, row := range []struct {
		bytes, by  uint64
		others     []string
		confidence string
		says       string
	}{
		{100, 0, nil, confident, ""},
		{100, 99, nil, confident, "99 bytes"},
		{100, 100, nil, doubtful, "100 bytes"},
		{100, 1, []string{"send"}, doubtful, "send"},
		{100, 0, []string{"send", "ioctl", "send"}, doubtful, "ioctl, send"},
	} {
		confidence, text := unless(row.bytes, row.by, "read", row.others)
		if confidence != row.confidence || !strings.Contains(text, row.says) || (text == "") != (row.says == "") {
			t.Errorf("%+v: %s %q", row, confidence, text)
		}
	}
}

// TestDoubtsOfSockets: what recv and send have moved is a doubt of so many bytes where it is known, else one by name.
func TestDoubtsOfSockets(t *testing.T) {
	for _, row := range []struct {
		name          string
		flags         uint32
		untold        uint64
		read, written uint64
		reads, writes []string
	}{
		{"known", layout.ObjTransfers, 0, 200, 100, nil, nil},
		{"some", layout.ObjTransfers, 2, 200, 100, []string{"2 calls of send and theirs that moved what is not known"}, []string{"2 calls of recv and theirs that moved what is not known"}},
		{"not known", 0, 0, 0, 0, []string{"sendmsg"}, []string{"recvfrom"}},
	} {
		head := layout.Header{Sockets: layout.Sockets{Received: layout.Moves{Calls: 3, Bytes: 100, Untold: row.untold}, Sent: layout.Moves{Calls: 4, Bytes: 200, Untold: row.untold}}}
		tab := &table.Table{File: &file.File{Header: head}, Objects: []layout.Object{{Path: "/lib/libc.so.6", Flags: row.flags}}}
		for _, name := range []string{"sendmsg", "__recvfrom"} {
			tab.Functions = append(tab.Functions, layout.Function{Name: name, Blocks: ledger.ReasonKernelSite})
		}
		d := doubtsOf(tab, nil, []uint64{1, 1})
		if d.read != row.read || d.written != row.written || !slices.Equal(d.reads, row.reads) || !slices.Equal(d.writes, row.writes) {
			t.Errorf("%s: %+v", row.name, d)
		}
	}
}
