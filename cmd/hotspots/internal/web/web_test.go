package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/live"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/cputime"
	"github.com/dynprof/dynprof/internal/table/tabledir"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// site is a server of one table, which is read when the test says so.
type site struct {
	*Server
	t    testing.TB
	http http.Handler
	live *tabletest.Live
	p    *program
}

func newSite(t testing.TB, live *tabletest.Live) *site {
	t.Helper()
	s := &site{Server: New(Options{Interval: time.Second}), t: t, live: live}
	s.http = &guard{token: s.token, next: s.handler()}
	s.p = s.show(live.Path)
	return s
}

// show adds a table, and reads it once.
func (s *site) show(path string) *program {
	s.t.Helper()
	source, err := live.Open(path, false, nil, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { source.Close() })
	p := newProgram(source, nil)
	p.read(s.Interval)
	s.programs = append(s.programs, p)
	return p
}

func demo(t testing.TB) *site {
	t.Helper()
	return newSite(t, tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec()))
}

// ask asks as the page does.
func (s *site) ask(method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:9466/", nil)
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
	r.Header.Set("Authorization", "Bearer "+s.token)
	for i := 0; i < len(headers); i += 2 {
		switch {
		case headers[i] == "Host":
			r.Host = headers[i+1]
		case headers[i+1] == "":
			r.Header.Del(headers[i])
		default:
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	s.http.ServeHTTP(w, r)
	return w
}

// get is an answer in JSON.
func (s *site) get(path string) (v map[string]any) {
	s.t.Helper()
	w := s.ask("GET", "/api/v1/"+path)
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != http.StatusOK || v["schema"] != 1.0 {
		s.t.Fatalf("%s: %d, %v: %s", path, w.Code, err, w.Body)
	}
	return v
}

// columns is an answer with counts, by function.
func (s *site) columns(path string) (head map[string]any, counts map[uint32]uint64) {
	s.t.Helper()
	w := s.ask("GET", "/api/v1/"+path)
	b := w.Body.Bytes()
	if w.Code != http.StatusOK {
		s.t.Fatalf("%s: %d: %s", path, w.Code, b)
	}
	length := binary.LittleEndian.Uint32(b)
	if err := json.Unmarshal(b[4:4+length], &head); err != nil {
		s.t.Fatal(err)
	}
	n := int(head["n"].(float64))
	at := (4 + int(length) + 7) / 8 * 8
	if len(b) != at+12*n || head["schema"] != 1.0 {
		s.t.Fatalf("%d bytes for %d counts behind %d: %v", len(b), n, at, head)
	}
	counts = map[uint32]uint64{}
	for i := range n {
		counts[binary.LittleEndian.Uint32(b[at+8*n+4*i:])] = binary.LittleEndian.Uint64(b[at+8*i:])
	}
	return head, counts
}

// TestGuard: who has no token, another Host, or another Origin gets nothing of a program.
func TestGuard(t *testing.T) {
	s := demo(t)
	api := "/api/v1/tables"
	for _, row := range []struct {
		name, method, path string
		headers            []string
		status             int
	}{
		{"as it is meant", "GET", api, nil, 200},
		{"by another port, as ssh -L has it", "GET", api, []string{"Host", "localhost:1234", "Origin", "http://localhost:1234"}, 200},
		{"IPv6", "GET", api, []string{"Host", "[::1]:9466"}, 200},
		{"no port", "GET", api, []string{"Host", "127.0.0.1"}, 200},
		{"no token", "GET", api, []string{"Authorization", ""}, 403},
		{"another token", "GET", api, []string{"Authorization", "Bearer " + newToken()}, 403},
		{"a longer one", "GET", api, []string{"Authorization", "Bearer " + s.token + "x"}, 403},
		{"a part of it", "GET", api, []string{"Authorization", "Bearer " + s.token[:8]}, 403},
		{"an empty one", "GET", api, []string{"Authorization", "Bearer "}, 403},
		{"another scheme", "GET", api, []string{"Authorization", "Basic " + s.token}, 403},
		{"as a cookie or parameter", "GET", api + "?token=" + s.token, []string{"Authorization", "", "Cookie", "token=" + s.token}, 403},
		{"a name that leads here", "GET", api, []string{"Host", "evil.example:9466"}, 403},
		{"one that looks like ours", "GET", api, []string{"Host", "127.0.0.1.evil.example"}, 403},
		{"the same, without a token", "GET", "/", []string{"Host", "localhost.evil.example:9466", "Authorization", ""}, 403},
		{"a public address", "GET", api, []string{"Host", "192.0.2.1:9466"}, 403},
		{"no Host", "GET", api, []string{"Host", ""}, 403},
		{"a page of elsewhere", "GET", api, []string{"Origin", "http://evil.example"}, 403},
		{"of another port", "GET", api, []string{"Origin", "http://127.0.0.1:8080"}, 403},
		{"of a file", "GET", api, []string{"Origin", "null"}, 403},
		{"of another scheme", "GET", api, []string{"Origin", "https://127.0.0.1:9466"}, 403},
		{"its assets", "GET", "/main.js", []string{"Origin", "http://evil.example", "Authorization", ""}, 403},
		{"assets need no token", "GET", "/", []string{"Authorization", ""}, 200},
		{"another method", "DELETE", api, nil, 405},
		{"to be asked first", "OPTIONS", api, []string{"Origin", "http://127.0.0.1:9466"}, 405},
		{"what is not there", "GET", "/api/v2/tables", nil, 404},
		{"a page that is not there", "GET", "/x.html", nil, 404},
		{"a way out", "GET", "/../assets.go", nil, 404},
		{"a directory", "GET", "/vendor", nil, 404},
		{"what is no page", "GET", "/vendor/uplot.LICENSE", nil, 404},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := s.ask(row.method, row.path, row.headers...)
			if w.Code == http.StatusMovedPermanently || w.Code == http.StatusTemporaryRedirect { // of ServeMux, which cleans paths
				w = s.ask(row.method, w.Header().Get("Location"), row.headers...)
			}
			if w.Code != row.status {
				t.Errorf("%d, not %d: %s", w.Code, row.status, w.Body)
			}
			if w.Header().Get("Content-Security-Policy") == "" || w.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%v", w.Header())
			}
			if w.Code != 200 && strings.Contains(w.Body.String(), "demo") {
				t.Errorf("%s", w.Body)
			}
		})
	}
}

// TestCounts: who asks is told what is new since what he knows, exactly.
func TestCounts(t *testing.T) {
	s := demo(t)
	path := "tables/" + s.p.id + "/counts"
	head, counts := s.columns(path)
	if head["reading"] != 1.0 || len(counts) != 7 || counts[0] != 700 || counts[1] != 1500 || head["state"].(map[string]any)["total"] != "2223" {
		t.Errorf("%v, %v", head, counts)
	}
	const large = 1<<60 + 1
	s.live.Set(0, large)
	s.p.read(time.Second)
	if _, counts := s.columns(path + "?after=1"); len(counts) != 1 || counts[0] != large {
		t.Errorf("%v", counts)
	}
	if head, counts := s.columns(path + "?after=2"); len(counts) != 0 || head["since"] != 2.0 {
		t.Errorf("%v", counts)
	}
	if head, counts := s.columns(path + "?after=99"); len(counts) != 7 || head["since"] != 0.0 { // of another server
		t.Errorf("%v", counts)
	}
	if _, counts := s.columns("tables/" + s.p.id + "/range"); len(counts) != 1 || counts[0] != large-700 {
		t.Errorf("%v", counts)
	}
	line := s.get("tables/" + s.p.id + "/timeline?function=0")
	if n := line["calls"].([]any); len(n) != 1 || n[0] != "1152921504606846277" {
		t.Errorf("%v", line)
	}
	if all := s.get("tables"); all["tables"].([]any)[0].(map[string]any)["total"] != "1152921504606848500" {
		t.Errorf("%v", all)
	}
}

// TestAnswers: what the views show.
func TestAnswers(t *testing.T) {
	s := demo(t)
	one := "tables/" + s.p.id
	f := s.get(one + "/functions")
	if names := strings.Split(f["names"].(string), "\n"); len(names) != 7 || names[1] != "demo::add(int, int)" || f["aliases"].(map[string]any)["1"] != "demo::plus(int, int)" {
		t.Errorf("%v", f)
	}
	word := f["words"].([]any)[int(f["reason"].([]any)[3].(float64))].(map[string]any)
	if word["word"] != "too-short" || word["why"] == "" || word["excluded"] != false {
		t.Errorf("%v", word)
	}
	if e := s.get(one + "/events")["events"].([]any); len(e) != 1 || e[0].(map[string]any)["function"] != 1.0 || e[0].(map[string]any)["calls"] != "1000" {
		t.Errorf("%v", e)
	}
	threads := s.get(one + "/threads?functions=1,5")
	if by := threads["functions"].([]any); len(by) != 2 || len(by[0].([]any)) != 2 || by[0].([]any)[0].(map[string]any)["calls"] != "1000" || len(threads["threads"].([]any)) != 2 {
		t.Errorf("%v", threads)
	}
	if c := s.get(one + "/coverage"); c["total"].(map[string]any)["counted"] != 4.0 || len(c["objects"].([]any)) != 3 {
		t.Errorf("%v", c)
	}
	if d := s.get(one + "/functions/1"); len(d["threads"].([]any)) != 2 || d["no_code"] == "" || d["no_edges"] == "" {
		t.Errorf("%v", d)
	}
	other := tabletest.Demo(t, filepath.Join(t.TempDir(), "b.dynprof"), tabletest.Spec())
	other.Set(0, 900, 1000, 3, 0)
	d := s.get("diff?before=" + s.p.id + "&after=" + s.show(other.Path).id)
	if d["names"] != "main" || d["same"] != 5.0 || d["calls_before"].([]any)[0] != "700" || d["calls_after"].([]any)[0] != "900" {
		t.Errorf("%v", d)
	}
}

// TestTimes: CPU time where it is sampled, and none where it is not.
func TestTimes(t *testing.T) {
	s := demo(t)
	one := "tables/" + s.p.id
	if head, times := s.columns(one + "/times"); len(times) != 0 || head["total"] != "0" {
		t.Errorf("%v, %v", head, times)
	}
	sampled := cputime.File{Period: 1000, InKernel: 1, Functions: []cputime.Function{{Number: 1, Object: "/opt/demo/demo", Address: 0x1160, Samples: 20}}}
	if err := sampled.Write(s.live.Path, s.live.Nonce); err != nil {
		t.Fatal(err)
	}
	s.p.read(time.Second)
	if head, times := s.columns(one + "/times"); len(times) != 1 || times[1] != 20_000 || head["total"] != "21000" {
		t.Errorf("%v, %v", head, times)
	}
	if head, _ := s.columns(one + "/counts"); head["state"].(map[string]any)["timed"] != true {
		t.Errorf("%v", head)
	}
}

// TestBadRequests: what makes no sense is refused in a line, and takes nothing.
func TestBadRequests(t *testing.T) {
	s := demo(t)
	one := "/api/v1/tables/" + s.p.id
	huge := strings.Repeat("9", 4000)
	for path, status := range map[string]int{
		"/api/v1/tables/nosuch/counts":                                           404,
		"/api/v1/tables/%2e%2e/counts":                                           404,
		"/api/v1/tables/" + huge + "/functions":                                  404,
		one + "/counts?after=-1":                                                 400,
		one + "/counts?after=x":                                                  400,
		one + "/counts?after=" + huge:                                            400,
		one + "/counts?after=1&after=2":                                          400,
		one + "/counts?after=%zz":                                                400,
		one + "/timeline?function=7":                                             400,
		one + "/timeline?function=" + huge:                                       400,
		one + "/timeline?function=9223372036854775807":                           400,
		one + "/range?from=x":                                                    400,
		one + "/range?from=9223372036854775807&to=0":                             200,
		one + "/functions/7":                                                     404,
		one + "/functions/-1":                                                    404,
		one + "/functions/x":                                                     400,
		one + "/functions/" + huge:                                               400,
		one + "/threads?functions=":                                              200,
		one + "/threads?functions=x":                                             400,
		one + "/threads?functions=0,,1":                                          400,
		one + "/threads?functions=7":                                             400,
		one + "/threads?functions=" + strings.Repeat("1,", maxMatrix) + "1":      400,
		one + "/threads?functions=" + strings.Repeat("0,", 99):                   400,
		one + "/memory/at":                                                       404, // no pages are noted
		one + "/memory/part":                                                     404,
		one + "/memory/objects":                                                  200,
		one + "/memory/objects?from=2&to=1":                                      400,
		one + "/memory/objects?from=x":                                           400,
		one + "/memory/names":                                                    400,
		one + "/memory/names?row=64&at=":                                         400,
		one + "/memory/names?row=64&at=5000,x":                                   400,
		one + "/memory/names?row=64&at=800000000000":                             400,
		one + "/memory/names?row=8192&at=5000":                                   400,
		one + "/memory/names?row=64&at=" + strings.Repeat("1,", mostNamed) + "1": 400,
		one + "/memory/names?row=64&at=5000,7fffffffffff":                        200,
		"/api/v1/diff":                                                           404,
		"/api/v1/diff?before=" + s.p.id + "&after=nosuch":                        404,
	} {
		w := s.ask("GET", path)
		if w.Code != status {
			t.Errorf("%.80s: %d, not %d: %.200s", path, w.Code, status, w.Body)
		}
		if body := w.Body.String(); status != 200 && (len(body) > 400 || !strings.HasPrefix(body, `{"error":"`)) {
			t.Errorf("%.80s: %.500s", path, body)
		}
	}
	if w := s.ask("POST", "/api/v1/tables/nosuch"); w.Code != 404 {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// TestFull: of more tables than are told of the others are counted, and of more that are asked
// for the rest is refused.
func TestFull(t *testing.T) {
	s := demo(t)
	const beyond = 5
	dir := t.TempDir()
	for i := range maxOthers + beyond {
		tabletest.Demo(t, filepath.Join(dir, fmt.Sprint(i, tabledir.Ext)), tabletest.Spec())
	}
	s.Dirs = func() []string { return []string{dir} }
	list := s.get("tables")
	others := list["others"].([]any)
	if len(others) != maxOthers || list["more"] != float64(beyond) {
		t.Fatalf("%d others, and %v more", len(others), list["more"])
	}
	for i := range maxPrograms + 1 {
		want := http.StatusOK
		if i == maxPrograms {
			want = http.StatusTooManyRequests
		}
		if w := s.ask("POST", "/api/v1/tables/"+others[i].(map[string]any)["id"].(string)); w.Code != want {
			t.Fatalf("%d: %d, not %d: %s", i, w.Code, want, w.Body)
		}
	}
}

// TestLater: functions that come later are behind the others, and a reset is no call.
func TestLater(t *testing.T) {
	spec := tabletest.Spec()
	spec.NoSpare = false
	s := newSite(t, tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec))
	s.p.read(time.Second)
	addLate(t, s.live, spec)
	s.live.Set(0, 700, 1000, 3, 0, 9)
	s.p.read(time.Second)
	head, counts := s.columns("tables/" + s.p.id + "/counts?after=2")
	if counts[7] != 9 || head["state"].(map[string]any)["functions"] != 9.0 {
		t.Errorf("%v, %v", head, counts)
	}
	f := s.get("tables/" + s.p.id + "/functions")
	if names := strings.Split(f["names"].(string), "\n"); len(names) != 9 || names[7] != "late_one" {
		t.Errorf("%q", names)
	}
}

// TestNames: a name is one line, whatever is in the file.
func TestNames(t *testing.T) {
	spec := tabletest.Spec()
	spec.Functions[0].Name = "a\nb\x00<script>alert(1)</script>\u202e\xff"
	spec.Functions[0].Aliases = []string{"x\ny"}
	s := newSite(t, tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec))
	f := s.get("tables/" + s.p.id + "/functions")
	names := strings.Split(f["names"].(string), "\n")
	if len(names) != 7 || strings.ContainsFunc(names[0], func(r rune) bool { return r < ' ' || r == '\u202e' }) || f["aliases"].(map[string]any)["0"] != "x\uFFFDy" {
		t.Errorf("%q", names)
	}
}

// TestListen: only addresses of this machine.
func TestListen(t *testing.T) {
	for address, says := range map[string]string{
		"0.0.0.0:0": "not of this machine", "[::]:0": "not of this machine", ":0": "not of this machine", "192.0.2.1:80": "not of this machine", "example.org:80": "not of this machine",
		"127.0.0.1": "not an address", "9466": "not an address", "127.0.0.1:70000": "65535", "127.0.0.1:http": "65535", "127.0.0.1:": "65535", "127.0.0.1:00": "65535",
	} {
		if l, err := Listen(address, false); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v", address, l, err)
		}
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0", "127.1.2.3:0"} {
		l, err := Listen(address, false)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
			t.Errorf("%s: %v", address, ip)
		}
		l.Close()
	}
}

// TestServe: by a socket, until it is to end; who reads slowly or asks for nothing keeps nobody.
func TestServe(t *testing.T) {
	s := demo(t)
	l, err := Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	idle, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	base, token, _ := strings.Cut(s.URL(l), "/#token=")
	r, err := http.NewRequest("GET", base+"/api/v1/tables", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(a.Body)
	a.Body.Close()
	if err != nil || a.StatusCode != 200 || !bytes.Contains(body, []byte("demo")) {
		t.Errorf("%d, %v: %s", a.StatusCode, err, body)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestAssets: the page has no text that becomes HTML or code, and asks nobody else.
func TestAssets(t *testing.T) {
	own := regexp.MustCompile(`\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function\(|srcdoc)|style="|\bon(click|load)=|https?://`)
	s := demo(t)
	list, err := assets.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for _, e := range list {
		if e.IsDir() {
			continue
		}
		w := s.ask("GET", "/"+e.Name())
		body := w.Body.String()
		if m := own.FindString(strings.ReplaceAll(body, "http://www.w3.org/2000/svg", "")); m != "" || w.Code != 200 {
			t.Errorf("%s: %d, %q", e.Name(), w.Code, m)
		}
		if again := s.ask("GET", "/"+e.Name(), "If-None-Match", w.Header().Get("ETag")); again.Code != http.StatusNotModified {
			t.Errorf("%s: %d", e.Name(), again.Code)
		}
		if name, ok := strings.CutSuffix(e.Name(), ".js"); ok && name != "main" {
			modules = append(modules, name)
		}
	}
	// All modules are told of in the page, so that they are not asked for one after the other.
	var told []string
	for _, m := range regexp.MustCompile(`modulepreload" href="/[0-9a-f]{16}/(\w+)\.js"`).FindAllStringSubmatch(s.ask("GET", "/").Body.String(), -1) {
		told = append(told, m[1])
	}
	if !slices.Equal(told, modules) {
		t.Errorf("%q, not %q", told, modules)
	}
}

// FuzzAsk: whatever is asked, the answer is one of ours, and of no other table.
func FuzzAsk(f *testing.F) {
	s := demo(f)
	for _, path := range []string{"/", "/api/v1/tables", "/api/v1/tables/" + s.p.id + "/counts?after=1", "/api/v1/tables/" + s.p.id + "/threads?functions=0,1", "/api/v1/tables/" + s.p.id + "/functions/1", "/api/v1/diff?before=a&after=b", "/api/v1/tables/" + s.p.id + "/range?from=1&to=2"} {
		f.Add("GET", path)
		f.Add("POST", path)
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		if method == "" || strings.ContainsFunc(method, func(r rune) bool { return r < '!' || r > '~' }) {
			t.Skip() // the HTTP server refuses these
		}
		r := httptest.NewRequest("GET", "http://127.0.0.1/", nil)
		r.Method = method
		r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
		if !strings.HasPrefix(r.URL.Path, "/") {
			r.URL.Path = "/" + r.URL.Path
		}
		r.Header.Set("Authorization", "Bearer "+s.token)
		w := httptest.NewRecorder()
		s.http.ServeHTTP(w, r)
		switch w.Code {
		case 200, 301, 304, 307, 400, 403, 404, 405:
		default:
			t.Errorf("%q %q: %d: %s", method, path, w.Code, w.Body)
		}
	})
}

// addLate adds two functions to a table that is counted into.
func addLate(t *testing.T, l *tabletest.Live, spec *build.Spec) {
	t.Helper()
	a, err := build.OpenAppend(l.Memory())
	if err == nil {
		err = a.Add(tabletest.Late(uint16(len(spec.Objects)), 4))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestVendored: what others have made is as they have made it (docs/dependencies.md).
func TestVendored(t *testing.T) {
	for name, want := range map[string]string{
		"uplot-1.6.32.js":  "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f", // dist/uPlot.iife.min.js
		"uplot-1.6.32.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04", // dist/uPlot.min.css
		"uplot.LICENSE":    "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd", // LICENSE
	} {
		b, err := assets.ReadFile("assets/vendor/" + name)
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); err != nil || got != want {
			t.Errorf("%s: %v, %s", name, err, got)
		}
	}
}
