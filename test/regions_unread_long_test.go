//go:build long

package test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A thread waits for ten seconds and more in these.

// TestRegionsStopped: where hotspots is stopped the program goes on behind a wait. What the ring held
// by then is written when hotspots goes on, and how many accesses were lost is told.
func TestRegionsStopped(t *testing.T) {
	const n, ring = 200_000, 1 << 16
	u := startUnread(t, n)
	if err := syscall.Kill(u.hotspots.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); !isStopped(t, u.hotspots.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("hotspots does not stop")
		}
	}
	u.to.Write([]byte("\n"))
	if line := u.line(t); line != "off by 0" {
		t.Errorf("%q", line)
	}
	syscall.Kill(u.hotspots.Process.Pid, syscall.SIGCONT)
	if err := u.hotspots.Wait(); err != nil {
		t.Error(err)
	}
	l := recordedOf(t, u.table)
	if l.Total.Records < ring || l.Total.Records > ring+1000 || l.Total.Lost != n-l.Total.Records || l.Total.Waits == 0 || !l.Total.Ended {
		t.Errorf("%+v", l.Total)
	}
	allByTurns(t, u.table, &l)
}

// TestRegionsReaderKilled: the same where hotspots is killed; the file has what it had written.
func TestRegionsReaderKilled(t *testing.T) {
	const n = 200_000
	u := startUnread(t, n)
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // until the region is written
		if b, err := os.ReadFile(u.table + ".regions"); err == nil && strings.Contains(string(b), `"address"`) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nothing is written")
		}
	}
	if err := u.hotspots.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	u.to.Write([]byte("\n"))
	if line := u.line(t); line != "off by 0" {
		t.Errorf("%q", line)
	}
	u.hotspots.Wait()
	l := recordedOf(t, u.table)
	if l.Total.Ended {
		t.Errorf("%+v", l.Total)
	}
	allByTurns(t, u.table, &l)
}
