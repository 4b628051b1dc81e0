package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/spf13/cobra"
)

func newCloudReadyCommand(a *cli.App) *cobra.Command {
	var address string
	c := &cobra.Command{
		Use:   "ready [flags]",
		Short: "Check whether the gateway on this machine is ready",
		Long: `Check whether a gateway is ready, by its page /readyz: exit with 0 if it is, and with 1 and the reason
if not. This is for health checks in containers that have no other program.`,
		Example: `  pilotfish cloud ready`,
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			at, err := adminAddress(address)
			if err == nil && at == "" {
				err = cli.Usagef("--admin off has no pages: give HOST:PORT, such as %s", adminDefault)
			}
			if err != nil {
				return err
			}
			return requestReady(c.Context(), a, http.DefaultTransport, at)
		},
	}
	cli.Add(c.Flags(), "admin", &address, adminDefault)
	return c
}

func requestReady(ctx context.Context, a *cli.App, over http.RoundTripper, address string) error {
	const patience, longest = 3 * time.Second, 1000 // bytes
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("no answer within 3 s"))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", http.NoBody)
	if err != nil {
		return fmt.Errorf("--admin %q: %w", address, err)
	}
	response, err := (&http.Client{Transport: over}).Do(request)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, longest))
	if err != nil {
		return err
	}
	line := strings.TrimSpace(string(body))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %q", address, response.Status, line)
	}
	_, err = fmt.Fprintln(a.Stdout, line)
	return err
}
