package cloud

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/stretchr/testify/assert"
)

// TestCloudReady: the exit status reports whether a gateway is ready.
func TestCloudReady(t *testing.T) {
	status := http.StatusOK
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/readyz", r.URL.Path)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.Repeat("a line\n", 1+(status-200)*100))
	}))
	at := strings.TrimPrefix(page.URL, "http://")
	code, stdout, stderr := clitest.Call(t, "cloud", "ready", "--admin", at)
	assert.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, "a line\n", stdout)
	status = http.StatusServiceUnavailable
	code, stdout, stderr = clitest.Call(t, "cloud", "ready", "--admin", at)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, at+": 503 Service Unavailable: \"a line")
	assert.Less(t, len(stderr), 1500)
	page.Close()
	code, _, _ = clitest.Call(t, "cloud", "ready", "--admin", at)
	assert.Equal(t, cli.ExitFailed, code)
	for wrong, want := range map[string]int{"off": cli.ExitUsage, "nowhere": cli.ExitUsage, "a b:1": cli.ExitFailed} {
		code, _, stderr = clitest.Call(t, "cloud", "ready", "--admin", wrong)
		assert.Equal(t, want, code, wrong)
		assert.Contains(t, stderr, "--admin")
	}
	assert.Equal(t, adminDefault, newCloudReadyCommand(&cli.App{}).Flags().Lookup("admin").DefValue)
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCloudReadyTime: the wait for a page that does not answer ends after the time of a health check.
func TestCloudReadyTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		err := requestReady(t.Context(), &cli.App{}, transportFunc(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), "127.0.0.1:9433")
		assert.ErrorContains(t, err, "no answer within 3 s")
		assert.Equal(t, 3*time.Second, time.Since(began))
	})
}
