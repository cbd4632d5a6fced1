package test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"
)

// webTLS: by TLS a browser sees what it sees without, touched memory, which comes by a WebSocket, too;
// where it does not know the certificate, nothing.
func webTLS(t *testing.T, b *browser) {
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "host.pem"), filepath.Join(dir, "host.key")
	made := httptest.NewTLSServer(nil)
	made.Close()
	secret, err := x509.MarshalPKCS8PrivateKey(made.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: made.Certificate().Raw}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log, table := filepath.Join(dir, "log"), filepath.Join(dir, "tiny.dynprof")
	if err := os.WriteFile(log, []byte(tinyLog), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, cmd(build(t, "hotspots"), "heat", "import", log, "-o", table, "--slice", "2", "--granule", "pages")); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	s := serveWeb(t, "--tls-cert", certificate, "--tls-key", key, table)
	if err := chromedp.Do(b.ctx, chromedp.Navigate(s.url)); err == nil {
		t.Error("a certificate that nobody knows is taken")
	}
	trusts := func(ignore bool) {
		b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: ignore})
			return err
		}))
	}
	trusts(true)
	defer trusts(false)
	b.open(s.url)
	b.sees(`document.querySelector("main").firstChild`)
	b.keys("7")
	b.sees(`hotspots.views.memory.el.innerText.includes("5 pages touched: 1 read, 3 written, 2 executed")`)
	if !js[bool](b, `location.protocol === "https:" && performance.getEntriesByType("resource").every((r) => r.name.startsWith("https:"))`) {
		t.Error("not all by TLS")
	}
	b.faultless()
}
