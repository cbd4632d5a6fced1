package sampling

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
)

// encode is a record as the kernel writes it.
func encode(kind uint32, misc uint16, r Record, body []byte) []byte {
	b := append(make([]byte, HeaderSize), body...)
	if kind != recordSample {
		b = le.AppendUint64(le.AppendUint32(le.AppendUint32(b, r.Pid), r.Tid), r.Time)
	}
	le.PutUint32(b, kind)
	le.PutUint16(b[4:], misc)
	le.PutUint16(b[6:], uint16(len(b)))
	return b
}

func words(list ...uint64) (b []byte) {
	for _, v := range list {
		b = le.AppendUint64(b, v)
	}
	return b
}

func pair(a, b uint32) uint64 { return uint64(a) | uint64(b)<<32 }

// TestDecode: what linux/perf_event.h says of each kind.
func TestDecode(t *testing.T) {
	for _, row := range []struct {
		kind uint32
		misc uint16
		body []byte
		want Record
	}{
		{recordSample, 2, words(0x401000, pair(7, 8), 99), Record{Kind: Sample, Pid: 7, Tid: 8, Time: 99, IP: 0x401000}},
		{recordSample, 1, words(1<<63, pair(7, 8), 99), Record{Kind: Sample, Pid: 7, Tid: 8, Time: 99, IP: 1 << 63, Kernel: true}},
		{recordMmap2, 2, append(words(pair(7, 8), 0x1000, 0x2000, 0x3000, pair(8, 1), 55, 0, pair(5, 2)), "/bin/a\x00\x00"...),
			Record{Kind: Mapped, Pid: 7, Tid: 8, Time: 99, Name: "/bin/a", Start: 0x1000, Size: 0x2000, Offset: 0x3000, Inode: 55}},
		{recordComm, miscExec, append(words(pair(7, 8)), "a.out\x00\x00\x00"...), Record{Kind: Named, Pid: 7, Tid: 8, Time: 99, Name: "a.out", Executed: true}},
		{recordComm, 0, append(words(pair(7, 8)), "x\x00"...), Record{Kind: Named, Pid: 7, Tid: 8, Time: 99, Name: "x"}},
		{recordFork, 0, words(pair(9, 7), pair(9, 8), 98), Record{Kind: Forked, Pid: 9, Parent: 7, Tid: 9, Time: 98}},
		{recordExit, 0, words(pair(9, 7), pair(10, 8), 98), Record{Kind: Exited, Pid: 9, Parent: 7, Tid: 10, Time: 98}},
		{recordLost, 0, words(1, 23), Record{Kind: Lost, Pid: 7, Tid: 8, Time: 99, Count: 23}},
		{recordThrottle, 0, words(1, 2, 3), Record{Kind: Throttled, Pid: 7, Tid: 8, Time: 99}},
	} {
		b := encode(row.kind, row.misc, Record{Pid: 7, Tid: 8, Time: 99}, row.body)
		var got Record
		if !got.Decode(b) || !reflect.DeepEqual(got, row.want) {
			t.Errorf("kind %d: %+v, want %+v", row.kind, got, row.want)
		}
		if n := SizeOf(b); n != len(b) {
			t.Errorf("kind %d: size %d of %d", row.kind, n, len(b))
		}
		if row.kind != recordThrottle && got.Decode(b[:HeaderSize+7]) {
			t.Errorf("kind %d: cut short, it is %+v", row.kind, got)
		}
	}
	var r Record
	if r.Decode(encode(6, 0, r, nil)) {
		t.Errorf("of no known kind: %+v", r)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(recordMmap2, 2, Record{}, append(words(1, 2, 3, 4, 5, 6, 7, 8), "/bin/a\x00"...)))
	f.Add(encode(recordSample, 2, Record{}, words(1, 2, 3)))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := NewCollector()
		c.Add(&Record{Kind: Named, Pid: 1, Executed: true})
		for len(b) >= HeaderSize {
			n := max(HeaderSize, min(SizeOf(b), len(b)))
			var r Record
			if r.Decode(b[:n]) {
				c.Add(&r)
			}
			b = b[n:]
		}
		c.Settle(1 << 63)
		c.Settle(1<<64 - 1)
	})
}

// script is records in short: kind pid and what it needs.
func script(c *Collector, time *uint64, list ...Record) {
	for i := range list {
		*time++
		list[i].Time = *time
		if list[i].Tid == 0 {
			list[i].Tid = list[i].Pid
		}
		c.Add(&list[i])
	}
}

func at(pid uint32, ip uint64) Record { return Record{Kind: Sample, Pid: pid, IP: ip} }
func exec(pid uint32, name string) Record {
	return Record{Kind: Named, Pid: pid, Name: name, Executed: true}
}
func fork(pid, parent uint32) Record { return Record{Kind: Forked, Pid: pid, Parent: parent} }
func mapped(pid uint32, start, size uint64, path string) Record {
	return Record{Kind: Mapped, Pid: pid, Start: start, Size: size, Name: path}
}

// told is an image in short.
func told(i *Image) string {
	places := map[string]uint64{}
	for p, s := range i.Spots {
		path := "?"
		if p.In != nil {
			path = fmt.Sprintf("%s+%x", p.In.Path, p.Address-p.In.Start+p.In.Offset)
		}
		places[path] += s.Samples
	}
	return fmt.Sprintf("%s %d kernel %d planner %d %v", i.Name, i.Pid, i.Kernel, i.Planner, places)
}

// TestCollector: forks share what their parent has mapped, what is executed begins anew, and
// processes of dynprof's own are not the program's.
func TestCollector(t *testing.T) {
	c := NewCollector()
	now := uint64(0)
	script(c, &now,
		exec(1, "sh"), mapped(1, 0x1000, 0x1000, "/bin/sh"), at(1, 0x1004), Record{Kind: Sample, Pid: 1, Kernel: true},
		fork(2, 1), at(2, 0x1008), mapped(2, 0x5000, 0x1000, "/lib/a"), at(2, 0x5001), at(1, 0x5001), // not in the parent
		fork(3, 1), Record{Kind: Named, Pid: 3, Name: "dynprof-planner"}, at(3, 0x1004), fork(4, 3), exec(4, "ld.so"), at(4, 0x1004),
		exec(2, "app"), at(2, 0x1008), mapped(2, 0x1000, 0x1000, "/bin/app"), at(2, 0x1008), at(2, 0x1008),
		mapped(2, 0x1800, 0x100, "//anon"), at(2, 0x17ff), at(2, 0x1800), at(2, 0x1900), // in its middle
		Record{Kind: Forked, Pid: 2, Parent: 2, Tid: 20}, Record{Kind: Exited, Pid: 2, Tid: 2}, at(2, 0x1008), // the first thread has ended
		Record{Kind: Exited, Pid: 2, Tid: 20}, at(77, 0x1004), // its birth was lost
		Record{Kind: Lost, Count: 5}, Record{Kind: Throttled},
	)
	fresh := c.Settle(now + 1)
	var got []string
	for _, i := range c.Images {
		got = append(got, told(i))
	}
	want := []string{
		"sh 1 kernel 1 planner 2 map[/bin/sh+4:1 /bin/sh+8:1 /lib/a+1:1 ?:2]",
		"app 2 kernel 0 planner 0 map[//anon+0:1 /bin/app+7ff:1 /bin/app+8:3 /bin/app+900:1 ?:1]",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if c.Images[1].Parent != c.Images[0] || c.Lost != 5 || c.Throttled != 1 {
		t.Errorf("parent %v, lost %d, throttled %d", c.Images[1].Parent, c.Lost, c.Throttled)
	}
	if n := len(c.Images[0].Spots) + len(c.Images[1].Spots); len(fresh) != n {
		t.Errorf("%d new places of %d", len(fresh), n)
	}
	for _, p := range fresh {
		if p.Pid == 1 && p.Address == 0x5001 {
			c.Found(p, 0x1010)
			if o := p.Spot.Origin; o == nil || o.Address != 0x1010 || o.In == nil || o.In.Path != "/bin/sh" {
				t.Errorf("origin %+v", o)
			}
		}
	}
}

// TestSettle: records of several CPUs come in the order of time, and no later ones yet.
func TestSettle(t *testing.T) {
	c := NewCollector()
	for _, r := range []Record{
		{Kind: Sample, Pid: 1, IP: 0x1001, Time: 30}, {Kind: Sample, Pid: 1, IP: 0x1002, Time: 50},
		{Kind: Named, Pid: 1, Name: "a", Executed: true, Time: 10}, {Kind: Mapped, Pid: 1, Start: 0x1000, Size: 16, Name: "/a", Time: 20},
	} {
		c.Add(&r)
	}
	if fresh := c.Settle(40); len(fresh) != 1 || told(c.Images[0]) != "a 1 kernel 0 planner 0 map[/a+1:1]" {
		t.Errorf("%+v, %s", fresh, told(c.Images[0]))
	}
	if fresh := c.Settle(100); len(fresh) != 1 || told(c.Images[0]) != "a 1 kernel 0 planner 0 map[/a+1:1 /a+2:1]" {
		t.Errorf("%+v, %s", fresh, told(c.Images[0]))
	}
}

func TestText(t *testing.T) {
	if got := text([]byte("a\x00b")); got != "a" || !bytes.Equal([]byte(text([]byte("ab"))), []byte("ab")) {
		t.Errorf("%q", got)
	}
}
