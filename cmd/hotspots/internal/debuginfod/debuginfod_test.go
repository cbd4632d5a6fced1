package debuginfod

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFetch: what servers have is kept, and what they have not is asked for once; one that
// sends too much, or nothing, or an error, is an error of one line, and leaves nothing.
func TestFetch(t *testing.T) {
	asked := 0
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/buildid/aa/debuginfo":
			w.Write([]byte("content"))
		case "/buildid/bb/debuginfo": // more than it may be, and than it says
			for range 100 {
				w.Write(make([]byte, 100))
				w.(http.Flusher).Flush()
			}
		case "/buildid/cc/debuginfo":
			w.Write([]byte("a"))
			w.(http.Flusher).Flush()
			<-release
		case "/buildid/dd/debuginfo":
			http.Error(w, "a\nb", http.StatusInternalServerError)
		case "/buildid/ee/debuginfo":
			w.Write(make([]byte, 5000))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	defer close(release)
	cache := filepath.Join(t.TempDir(), "cache")
	d := &Client{URLs: []string{server.URL + "/", server.URL}, Cache: cache, Stall: time.Hour, Size: 1000}
	for range 2 {
		path, err := d.Fetch("aa")
		if b, _ := os.ReadFile(path); err != nil || string(b) != "content" || path != filepath.Join(cache, "aa", "debuginfo") {
			t.Errorf("%s, %v: %q", path, err, b)
		}
		if _, err := d.Fetch("00"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
	if asked != 3 { // the second server for what the first one had not
		t.Errorf("asked %d times", asked)
	}
	for _, id := range []string{"bb", "dd", "ee"} {
		if _, err := d.Fetch(id); err == nil || errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", id, err)
		}
	}
	d.Stall = 10 * time.Millisecond
	if _, err := d.Fetch("cc"); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Error(err)
	}
	d.Stall, d.Total = time.Hour, 10*time.Millisecond
	if _, err := d.Fetch("cc"); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Error(err)
	}
	for _, id := range []string{"bb", "cc", "dd", "ee"} {
		if left, _ := filepath.Glob(filepath.Join(cache, id, "*")); len(left) > 0 {
			t.Errorf("left: %s", left)
		}
	}
	for _, id := range []string{"", "../../x", "xy"} {
		if _, err := d.Fetch(id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestFetchCleans: files that nobody has read for long go, others stay.
func TestFetchCleans(t *testing.T) {
	d := &Client{Cache: t.TempDir()}
	old, fresh := filepath.Join(d.Cache, "aa", "debuginfo"), filepath.Join(d.Cache, "bb", "debuginfo")
	for path, age := range map[string]time.Duration{old: unused + time.Hour, fresh: time.Hour} {
		if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-age)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	d.clean()
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Error(err)
	}
}

func TestFromEnvironment(t *testing.T) {
	get := func(text string) func(string) string {
		env := map[string]string{"HOME": "/h"}
		for _, v := range strings.Split(text, ",") {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		return func(name string) string { return env[name] }
	}
	for text, want := range map[string]Client{
		"DEBUGINFOD_URLS=ima:ignore http://a https://b": {URLs: []string{"http://a", "https://b"}, Cache: "/h/.cache/debuginfod_client", Stall: stall, Size: maxSize},
		"DEBUGINFOD_URLS=http://a,XDG_CACHE_HOME=/x,DEBUGINFOD_TIMEOUT=5,DEBUGINFOD_MAXTIME=7,DEBUGINFOD_MAXSIZE=9": {
			URLs: []string{"http://a"}, Cache: "/x/debuginfod_client", Stall: 5 * time.Second, Total: 7 * time.Second, Size: 9},
		"DEBUGINFOD_URLS=http://a,DEBUGINFOD_CACHE_PATH=/y,DEBUGINFOD_MAXSIZE=0": {URLs: []string{"http://a"}, Cache: "/y", Stall: stall, Size: maxSize},
	} {
		d, err := FromEnvironment(get(text))
		if err != nil || strings.Join(d.URLs, " ") != strings.Join(want.URLs, " ") || d.Cache != want.Cache || d.Stall != want.Stall || d.Total != want.Total || d.Size != want.Size {
			t.Errorf("%s: %+v, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "DEBUGINFOD_URLS= ", "DEBUGINFOD_URLS=ima:enforcing", "DEBUGINFOD_TIMEOUT=x"} {
		if d, err := FromEnvironment(get(text)); d != nil || err != nil {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
	for _, text := range []string{"DEBUGINFOD_URLS=file:///x", "DEBUGINFOD_URLS=http://a,HOME=", "DEBUGINFOD_URLS=http://a,DEBUGINFOD_TIMEOUT=x", "DEBUGINFOD_URLS=http://a,DEBUGINFOD_MAXSIZE=-1"} {
		if d, err := FromEnvironment(get(text)); err == nil {
			t.Errorf("%q: %v", text, d)
		}
	}
}
