package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/export"
	"github.com/dynprof/dynprof/exporter"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
)

// Push sends the calls of each program, every now and then those that were made since, to a
// server with Pyroscope's /ingest. What could not be sent is in what is sent next.
type Push struct {
	To      *url.URL    // of the server; /ingest is added
	Headers http.Header // sent with each, as X-Scope-OrgID
	Every   time.Duration
}

// pushTime is how long the server may take for an answer.
const pushTime = 10 * time.Second

var errSending = errors.New("not pushed, and sent with what comes next")

// ParsePush reads the URL of a server.
func ParsePush(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("%q is not a URL like http://pyroscope:4040", address)
	}
	return u, nil
}

// pusher is a Push at work.
type pusher struct {
	*Push
	endpoint *exporter.Endpoint
	mangled  bool
	linger   time.Duration // how long programs that have ended are served
	host     string
	sent     map[[16]byte]*sentCalls // by nonce of the table
	complain func(error)
}

// sentCalls are calls of a program that have been sent.
type sentCalls struct {
	*export.CallsAt
	seen time.Time // when the program was last there: while its table is made compact it is not
}

// run sends until ctx is done.
func (p *pusher) run(ctx context.Context) {
	p.sent, p.host = map[[16]byte]*sentCalls{}, "unknown"
	if name, err := os.Hostname(); err == nil {
		p.host = name
	}
	p.begin()
	tick := time.NewTicker(p.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			p.round()
			return
		case <-tick.C:
			p.round()
		}
	}
}

// begin notes what programs that run already have called: one before us may have sent it.
func (p *pusher) begin() {
	for _, s := range p.endpoint.Served() {
		err := withTable(s.Table, func(t *table.Table) error {
			now, err := export.CallsNow(t)
			if err == nil {
				p.sent[t.Nonce] = &sentCalls{now, time.Now()}
			}
			return err
		})
		if err != nil {
			p.complain(fmt.Errorf("what %s has called so far is sent: %w", s.Program, err))
		}
	}
}

// round sends what all programs have called since the last one, up to the first that cannot
// be sent. Nobody interrupts it: the server may have what it has not answered yet, and would
// get it once more.
func (p *pusher) round() {
	for _, s := range p.endpoint.Served() {
		err := p.one(s)
		if errors.Is(err, errSending) {
			p.complain(err)
			break
		}
		if err != nil {
			p.complain(fmt.Errorf("%s is not pushed: %w", s.Program, err))
		}
	}
	const more = time.Minute
	for nonce, sent := range p.sent {
		if time.Since(sent.seen) > p.linger+p.Every+more {
			delete(p.sent, nonce)
		}
	}
}

// one sends what a program has called since.
func (p *pusher) one(s exporter.Served) error {
	var profile bytes.Buffer
	var before, now *export.CallsAt
	var nonce [16]byte
	err := withTable(s.Table, func(t *table.Table) (err error) {
		nonce = t.Nonce
		if sent := p.sent[nonce]; sent != nil {
			before, sent.seen = sent.CallsAt, time.Now()
		}
		now, err = export.PprofSince(&profile, t, before, p.mangled)
		return err
	})
	if err != nil {
		return err
	}
	from := now.Begin
	if before != nil {
		from = before.At
	}
	if now.Since(before) > 0 {
		if err := p.send(s, from, now.At, profile.Bytes()); err != nil {
			return fmt.Errorf("%w: %w", errSending, err)
		}
	}
	p.sent[nonce] = &sentCalls{now, time.Now()}
	return nil
}

// send makes a request: a form with the profile, and with what its sample type is.
func (p *pusher) send(s exporter.Served, from, until time.Time, profile []byte) error {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("profile", "calls.pb.gz")
	if err != nil {
		return err
	}
	part.Write(profile)
	if part, err = form.CreateFormFile("sample_type_config", "sample_type_config.json"); err != nil {
		return err
	}
	part.Write([]byte(`{"calls":{"units":"count","aggregation":"sum","display-name":"calls","sampled":false}}`))
	if err := form.Close(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), pushTime)
	defer cancel()
	to := p.To.JoinPath("ingest")
	to.RawQuery = url.Values{
		"name": {p.name(s)}, "format": {"pprof"}, "spyName": {"dynprof"},
		"from": {strconv.FormatInt(from.Unix(), 10)}, "until": {strconv.FormatInt(until.Unix(), 10)},
	}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), &body)
	if err != nil {
		return err
	}
	for name, values := range p.Headers {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", form.FormDataContentType())
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the address, which may have a password
		}
		return fmt.Errorf("%s: %w", p.To.Host, err)
	}
	defer answer.Body.Close()
	const shown = 200
	said, _ := io.ReadAll(io.LimitReader(answer.Body, shown))
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers %s: %s", p.To.Host, answer.Status, symname.Clean(strings.TrimSpace(string(said))))
	}
	return nil
}

// name is that of the application, with labels.
func (p *pusher) name(s exporter.Served) string {
	plain := func(label string) string {
		return strings.Map(func(c rune) rune {
			if strings.ContainsRune(`{},="`, c) {
				return '_'
			}
			return c
		}, label)
	}
	return fmt.Sprintf("%s{host=%s,pid=%s}", plain(filepath.Base(s.Program)), plain(p.host), plain(s.Pid))
}
