package web

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/dynprof/dynprof/internal/table/heat"
)

// selfMade writes a certificate for an address and a name, and its key.
func selfMade(t *testing.T, dir string) (certificate, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"host.example"}}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(dir, "host.pem"), filepath.Join(dir, "host.key")
	for path, b := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: raw}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	made, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(made)
	return certificate, key, roots
}

// TestTLS: by TLS others may look, too, with the token: at the page, and by a WebSocket.
func TestTLS(t *testing.T) {
	s := newWatchSite(t)
	s.touch(5, heat.WasRead)
	certificate, key, roots := selfMade(t, t.TempDir())
	var err error
	if s.TLS, err = TLS(certificate, key); err != nil {
		t.Fatal(err)
	}
	l, err := Listen("0.0.0.0:0", true)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	url, token, _ := strings.Cut(s.URL(l), "/#token=")
	_, port, _ := net.SplitHostPort(l.Addr().String())
	name, err := os.Hostname()
	if err != nil || url != "https://"+net.JoinHostPort(name, port) || token != s.token {
		t.Errorf("%s, %v", url, err)
	}
	at := "127.0.0.1:" + port
	client := func(c *tls.Config) *http.Client {
		c.RootCAs = roots
		to := &http.Transport{TLSClientConfig: c, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", at)
		}}
		t.Cleanup(to.CloseIdleConnections)
		return &http.Client{Transport: to}
	}
	api := "/api/v1/tables"
	for _, row := range []struct {
		what, host, path, origin, token string
		status                          int
	}{
		{"the page", at, "/", "", "", 200},
		{"by another name", "host.example:" + port, "/", "", "", 200},
		{"the API", at, api, "", token, 200},
		{"the API of the page", "host.example:" + port, api, "https://host.example:" + port, token, 200},
		{"no token", at, api, "", "", 403},
		{"another page", at, api, "https://evil.example", token, 403},
		{"a page without TLS", at, api, "http://" + at, token, 403},
	} {
		r, err := http.NewRequest("GET", "https://"+row.host+row.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Header.Set("Authorization", "Bearer "+row.token); row.origin != "" {
			r.Header.Set("Origin", row.origin)
		}
		a, err := client(&tls.Config{}).Do(r)
		if err != nil {
			t.Errorf("%s: %v", row.what, err)
			continue
		}
		text, _ := io.ReadAll(a.Body)
		a.Body.Close()
		if a.StatusCode != row.status || row.path == "/" && !strings.Contains(string(text), "<title>hotspots") {
			t.Errorf("%s: %d: %.100s", row.what, a.StatusCode, text)
		}
	}
	if a, err := client(&tls.Config{MaxVersion: tls.VersionTLS11}).Get("https://" + at + "/"); err == nil {
		a.Body.Close()
		t.Error("TLS 1.1 is spoken")
	}
	if a, err := http.Get("http://" + at + "/"); err == nil {
		a.Body.Close()
		if a.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS: %d", a.StatusCode)
		}
	}

	c, _, err := websocket.Dial(t.Context(), "wss://"+at+"/api/v1/tables/"+s.p.id+"/memory/live", &websocket.DialOptions{
		HTTPClient: client(&tls.Config{}), Subprotocols: []string{protocol, tokenProtocol + token}, HTTPHeader: http.Header{"Origin": {"https://" + at}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(`{"view":7,"columns":64,"rows":16}`)); err != nil {
		t.Fatal(err)
	}
	if head, _ := frame(t, c, "cells"); head["view"] != 7.0 || head["new"] != 1.0 {
		t.Errorf("%v", head)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestTLSFiles: what is no certificate, or not its key, is said.
func TestTLSFiles(t *testing.T) {
	certificate, key, _ := selfMade(t, t.TempDir())
	_, other, _ := selfMade(t, t.TempDir())
	for _, row := range []struct{ certificate, key, says string }{
		{"nosuch.pem", key, "nosuch.pem"}, {certificate, "nosuch.key", "nosuch.key"}, {key, key, "find certificate"}, {certificate, certificate, "rather than a key"}, {certificate, other, "does not match"},
	} {
		if _, err := TLS(row.certificate, row.key); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%+v: %v", row, err)
		}
	}
	for address, says := range map[string]string{":0": "0.0.0.0:0", "example.org:80": "IP:80", "0.0.0.0": "not an address"} {
		if l, err := Listen(address, true); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v", address, l, err)
		}
	}
}
