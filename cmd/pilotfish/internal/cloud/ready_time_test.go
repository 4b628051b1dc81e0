package cloud

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCloudReadyTime: the wait for a page that does not answer ends after the time of a health check.
func TestCloudReadyTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		err := askReady(t.Context(), &cli.App{}, transportFunc(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), "127.0.0.1:9433")
		assert.ErrorContains(t, err, "no answer within 3 s")
		assert.Equal(t, 3*time.Second, time.Since(began))
	})
}
