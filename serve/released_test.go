package serve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// TestRequestsAreReleased: requests that are over, answered or refused, do not wait for the end of the server.
func TestRequestsAreReleased(t *testing.T) {
	s := newTestServer(t, &fakeModel{}, nil)
	closing := &held.Context{Context: s.closing}
	s.closing = closing
	for _, body := range []string{
		`{"prompt":"a"}`, `{"prompt":"a","stream":true}`, `{"prompt":`, `{"prompt":"a","model":"none"}`,
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		s.ServeHTTP(httptest.NewRecorder(), r)
		assert.Zero(t, closing.Waiting.Load(), body)
	}
	assert.GreaterOrEqual(t, closing.Ever.Load(), int32(4))
}
