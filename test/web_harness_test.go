package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// webserver is hotspots web.
type webserver struct {
	t     *testing.T
	cmd   *exec.Cmd
	url   string // with the token
	base  string // http://127.0.0.1:PORT
	token string
}

// serveWeb starts it, at a port that the kernel chooses.
func serveWeb(t *testing.T, args ...string) *webserver {
	t.Helper()
	return serveWebIn(t, nil, args...)
}

// serveWebIn starts it with more variables.
func serveWebIn(t *testing.T, env []string, args ...string) *webserver {
	t.Helper()
	s := &webserver{t: t, cmd: exec.Command(build(t, "hotspots"), append([]string{"web", "--addr", "127.0.0.1:0"}, args...)...)}
	s.cmd.Stderr, s.cmd.Env = os.Stderr, append(os.Environ(), env...)
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	if s.url, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("it says nothing: %v", err)
	}
	s.url = strings.TrimSpace(s.url)
	var ok bool
	if s.base, s.token, ok = strings.Cut(s.url, "/#token="); !ok {
		t.Fatalf("%q", s.url)
	}
	return s
}

// end ends it, as Ctrl-C does.
func (s *webserver) end() {
	if s.cmd.ProcessState != nil {
		return
	}
	s.cmd.Process.Signal(syscall.SIGINT)
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("hotspots web: %v", err)
	}
}

// ask asks the API, with the token.
func (s *webserver) ask(path string) (status int, body string) {
	s.t.Helper()
	r, err := http.NewRequest("GET", s.base+"/api/v1/"+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	return answer(s.t, r)
}

func answer(t *testing.T, r *http.Request) (status int, body string) {
	t.Helper()
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

// browser is a Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// browse starts one. Without it nothing can be said of the page, so that is a failure.
func browse(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("no chromium on this machine: make deps installs it")
	}
	home := t.TempDir()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(filepath.Join(home, "profile")),
		chromedp.Env("HOME="+home), chromedp.WindowSize(1400, 900), chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("lang", "en-GB"), chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 4*patience)
	t.Cleanup(cancel)
	b := &browser{t, ctx}
	b.do(chromedp.Navigate("about:blank"))
	return b
}

// tab is another page of the same browser, until the test ends.
func (b *browser) tab(t *testing.T) *browser {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	t.Cleanup(cancel)
	return &browser{t, ctx}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// open goes to a page, of which errors and what its policy forbids are noted.
func (b *browser) open(url string) {
	b.t.Helper()
	b.do(chromedp.Steps(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: noting})
		return err
	}), chromedp.Navigate(url)))
}

const noting = `
globalThis.faults = [];
addEventListener("error", (e) => faults.push(String(e.message)));
addEventListener("unhandledrejection", (e) => faults.push(String(e.reason)));
addEventListener("securitypolicyviolation", (e) => faults.push(e.violatedDirective + " " + e.blockedURI));
`

// faultless fails if there were such errors.
func (b *browser) faultless() {
	b.t.Helper()
	if faults := js[[]string](b, "faults"); len(faults) > 0 {
		b.t.Errorf("in the page: %q", faults)
	}
}

// js is the value of an expression in the page; a promise's when it is there.
func js[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// sees waits until an expression is true.
func (b *browser) sees(expression string) {
	b.t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("(() => { try { return !!("+expression+") } catch { return false } })()"))
		if err == nil && ok {
			return
		}
		if time.Now().After(limit) || b.ctx.Err() != nil {
			b.t.Fatalf("%s: %v\n%s\n%q", expression, err, js[string](b, "document.body.innerText"), js[[]string](b, "globalThis.faults ?? []"))
		}
	}
}

// keys presses keys, as a keyboard does: what a page does not let happen types nothing.
// (chromedp.KeyEvent sends the character by itself, whatever the page says to its key.)
func (b *browser) keys(keys string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, r := range keys {
			events := kb.Encode(r)
			if len(events) == 3 {
				down, char := events[0], events[1]
				down.Type, down.Text, down.UnmodifiedText = input.DispatchKeyEventTypeKeyDown, char.Text, char.UnmodifiedText
				events = []*input.DispatchKeyEventParams{down, events[2]}
			}
			for _, e := range events {
				if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, *e); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

// saved is the file that a statement has the page give its user.
func (b *browser) saved(statement string) string {
	b.t.Helper()
	return js[string](b, `(async () => {
		const make = URL.createObjectURL;
		const blob = await new Promise((done) => {
			URL.createObjectURL = (blob) => { done(blob); return make.call(URL, blob); };
			`+statement+`;
		});
		URL.createObjectURL = make;
		return blob.text();
	})()`)
}

// row is an expression: a line of the list of functions shows such calls and such a name.
func row(calls, name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".row:not([hidden])")].some((r) => { const c = [...r.children].map((x) => x.innerText); return c.includes(%s) && c.some((x) => x.split("\n")[0] === %s) })`, quote(calls), quote(name))
}

// first is an expression: the name in the first line of the list.
const firstName = `[...document.querySelectorAll(".row:not([hidden])")].sort((a, b) => a.line - b.line)[0].querySelector(".name span").textContent`

// size gives the window another.
func (b *browser) size(width, height int64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.do(chromedp.EmulateViewport(width, height), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}

// picture writes what is shown to a file.
func (b *browser) picture(path string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(path, png, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
