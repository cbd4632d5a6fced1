package listen

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Parse and String agree with net/netip.
func TestTCP(t *testing.T) {
	for in, want := range map[string]string{
		"127.0.0.1:9464": "", "0.0.0.0:0": "", "[::1]:9464": "", "[::]:80": "", "[2001:db8::8:800:200c:417a]:1": "",
		"[1:2:3:4:5:6:7:8]:65535": "", "[::ffff]:3": "", "[fe80::]:3": "", "[1:0:0:2:0:0:0:3]:4": "[1:0:0:2::3]:4",
		"[1::2:0:0:3]:4": "[1::2:0:0:3]:4", "[64:ff9b::192.0.2.33]:5": "[64:ff9b::c000:221]:5",
		"9464": "127.0.0.1:9464", ":9464": "127.0.0.1:9464", "localhost:1": "127.0.0.1:1",
	} {
		if want == "" {
			want = in
		}
		a, err := Parse(in)
		if err != nil || a.String() != want {
			t.Errorf("%s: %v, %v", in, a, err)
			continue
		}
		if ap, err := netip.ParseAddrPort(want); err != nil || ap.String() != want && !ap.Addr().Is4In6() || ap.Addr().As16() != a.IP {
			t.Errorf("%s: netip says %v, %v", want, ap, err)
		}
	}
}

func TestRefused(t *testing.T) {
	long := "unix:/" + strings.Repeat("x", 200)
	for _, in := range []string{
		"", "x", "host:1", "1.2.3:4", "1.2.3.256:4", "01.2.3.4:5", "127.0.0.1:65536", "127.0.0.1:-1", "::1:80", "[::1%lo]:80", "[1:2]:3", "[1::2::3]:4",
		"[1:2:3:4:5:6:7:8:9]:1", "[12345::]:1", "[1:2:3:4:5:6:7::8]:1", "[::1.2.3]:1", "unix:", "unix:@abstract", "unix:/a\x00b", long,
	} {
		if a, err := Parse(in); err == nil {
			t.Errorf("%q is %v", in, a)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"127.0.0.1:1", "[::1]:2", "[1:2:3:4:5:6:1.2.3.4]:5", "unix:/x", "[1::]:0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := Parse(s)
		if err != nil || a.Path != "" {
			return
		}
		if again, err := Parse(a.String()); err != nil || again != a {
			t.Errorf("%q is %v, which is %v, %v", s, a, again, err)
		}
		if ap, err := netip.ParseAddrPort(a.String()); err != nil || ap.Addr().As16() != a.IP {
			t.Errorf("%q is %v; netip: %v, %v", s, a, ap, err)
		}
	})
}

func open(t *testing.T, address string) (int, Address, error) {
	t.Helper()
	a, err := Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	fd, a, err := a.Open()
	if err == nil {
		t.Cleanup(func() { syscall.Close(fd) })
	}
	return fd, a, err
}

func TestOpen(t *testing.T) {
	_, a, err := open(t, "127.0.0.1:0")
	if err != nil || a.Port == 0 {
		t.Fatal(a, err)
	}
	c, err := net.Dial("tcp", a.String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, _, err := open(t, a.String()); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
}

func TestOpenPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd, a, err := open(t, "unix:"+path)
	if err != nil || a.String() != "unix:"+path {
		t.Fatal(a, err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, _, err := open(t, "unix:"+path); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	syscall.Close(fd) // as its process died
	if _, _, err := open(t, "unix:"+path); err != nil {
		t.Errorf("a stale socket stays: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := open(t, "unix:"+file); err == nil {
		t.Error("a file was taken for a socket")
	}
	if b, _ := os.ReadFile(file); string(b) != "x" {
		t.Error("the file is gone")
	}
}
