package admin_test

import (
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/admin"
)

// A few clients at once get the metrics, others are refused.
func TestMetricsBound(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		gathered := make(chan struct{})
		h := admin.Handler(admin.Options{Log: slog.New(slog.DiscardHandler),
			Metrics: prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
				<-gathered
				return nil, nil
			})})
		for range 8 {
			go func() {
				code, _ := get(h, "GET", "/metrics")
				assert.Equal(t, http.StatusOK, code)
			}()
		}
		synctest.Wait()
		var code int
		go func() { code, _ = get(h, "GET", "/metrics") }()
		synctest.Wait()
		close(gathered)
		synctest.Wait()
		assert.Equal(t, http.StatusServiceUnavailable, code)
	})
}
