package web

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/heatview"
	"github.com/dynprof/dynprof/internal/table/heat"
)

const patience = time.Minute

// watchSite is a server of a table whose pages are noted.
type watchSite struct {
	*site
	url  string
	log  heat.Log
	last heat.Slice
}

func newWatchSite(t *testing.T) *watchSite {
	t.Helper()
	s := &watchSite{site: demo(t)}
	server := httptest.NewServer(s.http)
	t.Cleanup(func() { s.Close(); server.Close() })
	s.url = server.URL + "/api/v1/tables/" + s.p.id + "/memory/live"
	s.log.Apart = 1
	if err := s.log.Open(s.live.Path, s.live.Nonce, &heat.Maps{Mappings: []heat.Mapping{{Start: 0x5000, End: 0x9000, Path: "/opt/demo/demo"}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// touch adds a slice.
func (s *watchSite) touch(page uint64, what heat.What) {
	s.last = heat.Slice{Executed: s.last.Executed + 10, Time: s.last.Time + 5, Parts: 1, Ranges: []heat.Range{{First: page, Pages: 1, What: what}}}
	s.log.Add(&s.last)
}

// dial opens a stream as a page does.
func (s *watchSite) dial(t *testing.T, protocols ...string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	if protocols == nil {
		protocols = []string{protocol, tokenProtocol + s.token}
	}
	c, answer, err := websocket.Dial(t.Context(), s.url, &websocket.DialOptions{Subprotocols: protocols, HTTPHeader: http.Header{"Origin": {strings.Replace(s.url[:strings.Index(s.url, "/api")], "ws", "http", 1)}}})
	if err == nil {
		c.SetReadLimit(1 << 24)
		t.Cleanup(func() { c.CloseNow() })
	}
	return c, answer, err
}

func (s *watchSite) open(t *testing.T, view string) *websocket.Conn {
	t.Helper()
	c, _, err := s.dial(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), websocket.MessageText, []byte(view)); err != nil {
		t.Fatal(err)
	}
	return c
}

// frame is the next one of a kind.
func frame(t *testing.T, c *websocket.Conn, kind string) (head map[string]any, body []byte) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for {
		is, b, err := c.Read(ctx)
		if err != nil || is != websocket.MessageBinary {
			t.Fatalf("%v, %v", is, err)
		}
		length := binary.LittleEndian.Uint32(b)
		head = nil
		if err := json.Unmarshal(b[4:4+length], &head); err != nil || head["schema"] != float64(heatview.Schema) {
			t.Fatalf("%v: %s", err, b[4:4+length])
		}
		if head["kind"] == kind {
			return head, b[(4+length+7)/8*8:]
		}
	}
}

// TestStream: who watches is told what is there, and what comes; by a new view what is in that.
func TestStream(t *testing.T) {
	s := newWatchSite(t)
	s.touch(5, heat.WasRead)
	c := s.open(t, `{"view":7,"columns":64,"rows":16}`)
	memory, _ := frame(t, c, "memory")
	if fmt.Sprint(memory["memory"]) != "[map[from:20480 name:/opt/demo/demo to:36864]]" {
		t.Errorf("%v", memory)
	}
	head, _ := frame(t, c, "cells")
	if head["view"] != 7.0 || head["whole"] != true || head["new"] != 1.0 || head["ready"] != true {
		t.Errorf("%v", head)
	}
	curve, body := frame(t, c, "curve")
	if curve["n"] != 1.0 || curve["touched"] != 1.0 || len(body) != 10*8 {
		t.Errorf("%v, %d bytes", curve, len(body))
	}
	s.touch(6, heat.WasWritten)
	if head, _ := frame(t, c, "cells"); head["whole"] != false || head["new"] != 1.0 || head["instructions"] != 20.0 {
		t.Errorf("%v", head)
	}
	if err := c.Write(t.Context(), websocket.MessageText, []byte(`{"view":8,"columns":8,"rows":8,"from":24576,"to":28672}`)); err != nil {
		t.Fatal(err)
	}
	for head["view"] != 8.0 {
		head, body = frame(t, c, "cells")
	}
	if head["new"] != 1.0 || head["from"] != 24576.0 {
		t.Errorf("%v, %x", head, body)
	}

	// The end: all is written anew.
	if err := s.log.Close(s.live.Path, s.live.Nonce, &heat.Maps{Ended: true}); err != nil {
		t.Fatal(err)
	}
	for head["whole"] != true || head["view"] != 8.0 {
		head, _ = frame(t, c, "cells")
	}
	if memory, _ := frame(t, c, "memory"); fmt.Sprint(memory["memory"]) != "[]" {
		t.Errorf("%v", memory)
	}
}

// TestStreamNone: where no pages are noted it is said how they would be, and when they are there
// they are told.
func TestStreamNone(t *testing.T) {
	s := newWatchSite(t)
	heat.Remove(s.live.Path)
	c := s.open(t, `{"view":1,"columns":64,"rows":16}`)
	if head, _ := frame(t, c, "none"); !strings.Contains(head["why"].(string), "hotspots run --heat=pages") {
		t.Errorf("%v", head)
	}
	if err := s.log.Open(s.live.Path, s.live.Nonce, &heat.Maps{}); err != nil {
		t.Fatal(err)
	}
	s.touch(9, heat.WasRead)
	for head := map[string]any(nil); head["new"] != 1.0; {
		head, _ = frame(t, c, "cells")
	}
}

// TestStreamGuard: who has no token, or is of elsewhere, is refused before anything is spoken.
func TestStreamGuard(t *testing.T) {
	s := newWatchSite(t)
	for _, row := range []struct {
		name, origin string
		protocols    []string
		status       int
	}{
		{"as it is meant", "", []string{protocol, tokenProtocol + s.token}, 101},
		{"no token", "", []string{protocol}, 403},
		{"another token", "", []string{protocol, tokenProtocol + newToken()}, 403},
		{"a part of it", "", []string{protocol, tokenProtocol + s.token[:9]}, 403},
		{"an empty one", "", []string{protocol, tokenProtocol}, 403},
		{"a page of elsewhere", "http://evil.example", []string{protocol, tokenProtocol + s.token}, 403},
		{"of another port", "http://127.0.0.1:1", []string{protocol, tokenProtocol + s.token}, 403},
	} {
		t.Run(row.name, func(t *testing.T) {
			header := http.Header{}
			if row.origin != "" {
				header.Set("Origin", row.origin)
			}
			c, answer, err := websocket.Dial(t.Context(), s.url, &websocket.DialOptions{Subprotocols: row.protocols, HTTPHeader: header})
			if err == nil {
				defer c.CloseNow()
				if c.Subprotocol() != protocol {
					t.Errorf("%q is spoken", c.Subprotocol())
				}
			}
			if answer == nil || answer.StatusCode != row.status {
				t.Fatalf("%v, %v", answer, err)
			}
		})
	}
	if w := s.ask("GET", "/api/v1/tables/"+s.p.id+"/memory/live"); w.Code != http.StatusUpgradeRequired {
		t.Errorf("without a WebSocket: %d", w.Code)
	}
	if w := s.ask("GET", "/api/v1/tables/nosuch/memory/live"); w.Code != http.StatusNotFound {
		t.Errorf("of no table: %d", w.Code)
	}
	if w := s.ask("GET", "/api/v1/tables", "Authorization", "", "Sec-WebSocket-Protocol", tokenProtocol+s.token); w.Code != http.StatusForbidden {
		t.Errorf("the token of a WebSocket, without one: %d", w.Code)
	}
}

// TestStreamHostile: what is no view ends it, with a reason; the server goes on.
func TestStreamHostile(t *testing.T) {
	s := newWatchSite(t)
	s.touch(5, heat.WasRead)
	for _, row := range []struct {
		name   string
		kind   websocket.MessageType
		text   string
		status websocket.StatusCode
	}{
		{"no JSON", websocket.MessageText, "x", websocket.StatusPolicyViolation},
		{"another field", websocket.MessageText, `{"columns":1,"rows":1,"path":"/etc/passwd"}`, websocket.StatusPolicyViolation},
		{"too many cells", websocket.MessageText, `{"columns":4097,"rows":1}`, websocket.StatusPolicyViolation},
		{"no text", websocket.MessageBinary, `{"columns":1,"rows":1}`, websocket.StatusUnsupportedData},
		{"too long", websocket.MessageText, strings.Repeat(" ", heatview.MostText+1), websocket.StatusMessageTooBig},
		{"more behind it", websocket.MessageText, `{"columns":1,"rows":1} {}`, websocket.StatusPolicyViolation},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, _, err := s.dial(t)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Write(t.Context(), row.kind, []byte(row.text)); err != nil {
				t.Fatal(err)
			}
			closed(t, c, row.status)
		})
	}
	c, _, err := s.dial(t)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range 100 * viewsAtOnce {
			if c.Write(context.Background(), websocket.MessageText, []byte(`{"columns":1,"rows":1}`)) != nil {
				return
			}
		}
	}()
	closed(t, c, websocket.StatusPolicyViolation)
	c, _, err = s.dial(t, protocol+"x", tokenProtocol+s.token)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, c, websocket.StatusPolicyViolation)
	frame(t, s.open(t, `{"view":1,"columns":1,"rows":1}`), "cells")
}

// closed waits until the other end closes.
func closed(t *testing.T, c *websocket.Conn, status websocket.StatusCode) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for {
		if _, _, err := c.Read(ctx); err != nil {
			if got := websocket.CloseStatus(err); got != status {
				t.Errorf("%v, not %v: %v", got, status, err)
			}
			return
		}
	}
}

// TestStreamFull: more than may watch are refused, until one has left; whoever reads nothing
// holds up nobody, and when he does he is told what is so by then.
func TestStreamFull(t *testing.T) {
	s := newWatchSite(t)
	s.touch(5, heat.WasRead)
	slow := s.open(t, `{"view":1,"columns":4096,"rows":2048}`)
	var all []*websocket.Conn
	for range maxWatching - 1 {
		all = append(all, s.open(t, `{"view":1,"columns":64,"rows":16}`))
	}
	frame(t, all[0], "cells")
	if _, answer, err := s.dial(t); err == nil || answer.StatusCode != http.StatusTooManyRequests {
		t.Errorf("%v", answer)
	}
	const touched = 200
	for i := range uint64(touched) {
		s.touch(10+i, heat.WasWritten)
	}
	for _, c := range append(all, slow) {
		for head := map[string]any(nil); head["instructions"] != 10.0*(touched+1); {
			head, _ = frame(t, c, "cells")
		}
	}
	all[0].CloseNow()
	for limit := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, _, err := s.dial(t); err == nil {
			break
		} else if time.Now().After(limit) {
			t.Fatal(err)
		}
	}
	s.Close()
	closed(t, slow, websocket.StatusGoingAway)
}

// TestPart: what is behind a part of the picture, and who touched it last, from the file, and as
// it is watched.
func TestPart(t *testing.T) {
	s := newWatchSite(t)
	for _, one := range []struct {
		page uint64
		what heat.What
	}{{5, heat.WasRead}, {6, heat.WasWritten}, {5, heat.WasWritten}, {9, heat.WasRead}, {8, heat.WasExecuted}} {
		s.touch(one.page, one.what) // of 10 instructions each
	}
	path := "tables/" + s.p.id + "/memory/"
	for _, watched := range []bool{false, true} {
		if watched {
			frame(t, s.open(t, `{"view":1,"columns":64,"rows":16}`), "cells")
		}
		all := s.get(path + "part")
		if all["touched"] != 4.0 || all["read"] != 2.0 || all["written"] != 2.0 || all["executed"] != 1.0 || all["first"] != 1.0 || all["last"] != 5.0 || all["more"] != 0.0 || len(all["parts"].([]any)) != 4 {
			t.Errorf("%v", all)
		}
		first := all["parts"].([]any)[0].(map[string]any)
		if first["address"] != "0x5000" || first["memory"] != "/opt/demo/demo" || first["read"] != true || first["written"] != true || first["last"] != 3.0 {
			t.Errorf("%v", first)
		}
		if last := all["parts"].([]any)[3].(map[string]any); last["address"] != "0x9000" || last["memory"] != "[unmapped]" {
			t.Errorf("%v", last)
		}
		if some := s.get(path + "part?from=20480&to=24577&after=10&before=25"); some["touched"] != 2.0 || some["read"] != 0.0 || some["first"] != 2.0 || some["last"] != 3.0 {
			t.Errorf("%v", some)
		}
		at := s.get(path + "at?from=20480&to=20481&before=20")
		if at["memory"] != "/opt/demo/demo" || at["written"] != nil || at["read"].(map[string]any)["slice"] != 1.0 || at["read"].(map[string]any)["instructions"] != 10.0 {
			t.Errorf("%v", at)
		}
		if at := s.get(path + "at?from=20480&to=20481"); at["written"].(map[string]any)["slice"] != 3.0 || at["executed"] != nil {
			t.Errorf("%v", at)
		}
	}
	if whose := s.get(path + "whose"); whose["noted"] != false || len(whose["runs"].([]any)) != 0 {
		t.Errorf("%v", whose)
	}
	for _, bad := range []string{"part?from=2&to=1", "part?after=5&before=5", "part?from=x", "at?to=-1", "at?before=99999999999999999999"} {
		if w := s.ask("GET", "/api/v1/"+path+bad); w.Code != 400 {
			t.Errorf("%s: %d", bad, w.Code)
		}
	}
}
