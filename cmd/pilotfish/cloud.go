package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// cloudCommandFlags are the flags of `pilotfish cloud`.
type cloudCommandFlags struct {
	model     modelFlags
	listen    string
	cert, key string
	token     string
	slots     int
}

// newCloudCommand serves the large model.
func newCloudCommand(a *app) *cobra.Command {
	var f cloudCommandFlags
	c := &cobra.Command{
		Use:   "cloud -m FILE [flags]",
		Short: "Serve a large model to devices that ask for single tokens",
		Long: `Serve a large model to devices that ask for single tokens, over QUIC with TLS.

The first start makes a self-signed certificate and prints its fingerprint, which devices pin with --pin; a certificate of
your own is given with --cert and --key. With a token of authentication (--token-file or PILOTFISH_TOKEN, at least 16 bytes)
only devices that have it may ask. SIGTERM and Ctrl-C let open questions finish.`,
		Example: `  pilotfish cloud -m big.gguf --listen :4433`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return f.serve(c.Context(), a) },
	}
	f.model.register(c)
	p := c.Flags()
	p.StringVar(&f.listen, "listen", ":4433", "UDP `address` to listen on")
	p.StringVar(&f.cert, "cert", "", "certificate `file`, PEM (default: made on the first start, in the user's configuration folder)")
	p.StringVar(&f.key, "key", "", "its private key `file`, PEM")
	p.StringVar(&f.token, "token-file", "", "`file` with the token that devices must have (or PILOTFISH_TOKEN)")
	p.IntVar(&f.slots, "slots", 0, "tokens kept in memory for all devices together; 0 means four contexts")
	return c
}

func (f *cloudCommandFlags) serve(ctx context.Context, a *app) error {
	if (f.cert == "") != (f.key == "") {
		return usagef("--cert and --key belong together")
	}
	e, err := f.model.open()
	if err != nil {
		return err
	}
	defer e.Close()
	s, err := e.Serve(engine.ServeOptions{Slots: f.slots})
	if err != nil {
		return err
	}
	defer s.Close()
	o, err := f.options(a)
	if err != nil {
		return err
	}
	g, err := s.Gateway(o)
	if err != nil {
		return err
	}
	socket, err := net.ListenPacket("udp", f.listen)
	if err != nil {
		return err
	}
	defer socket.Close()
	fmt.Fprintf(a.stderr, "listening on %s, up to %d MB of keys and values\n", socket.LocalAddr(), s.KVBytes()>>20)
	fmt.Fprintf(a.stdout, "%s\n", g.Fingerprint())
	return g.Serve(ctx, socket)
}

// options returns the certificate and the token of authentication.
func (f *cloudCommandFlags) options(a *app) (o engine.GatewayOptions, err error) {
	if o.Certificate, err = f.certificate(); err != nil {
		return o, err
	}
	secret, _, err := a.secret(f.token, f.token != "")
	if err != nil {
		return o, err
	}
	if secret != "" {
		o.Tokens = []engine.GatewayToken{{Name: "token", Secret: netproto.Secret(secret)}}
	}
	return o, nil
}

// certificate reads the certificate, and makes one where none was named and none was made before.
func (f *cloudCommandFlags) certificate() (tls.Certificate, error) {
	if f.cert != "" {
		c, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			err = fmt.Errorf("--cert %s, --key %s: %w", f.cert, f.key, err)
		}
		return c, err
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("no place for a certificate: %w; name one with --cert and --key", err)
	}
	dir := filepath.Join(config, "pilotfish")
	cert, key := filepath.Join(dir, "cloud.crt"), filepath.Join(dir, "cloud.key")
	c, err := tls.LoadX509KeyPair(cert, key)
	if !errors.Is(err, os.ErrNotExist) {
		return c, err
	}
	certPEM, keyPEM, err := engine.NewCertificate()
	if err != nil {
		return c, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return c, err
	}
	if err := os.WriteFile(key, keyPEM, 0o600); err != nil {
		return c, err
	}
	if err := os.WriteFile(cert, certPEM, 0o644); err != nil {
		return c, err
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}
