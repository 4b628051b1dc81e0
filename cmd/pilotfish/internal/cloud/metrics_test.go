package cloud

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestServiceMetrics: every count of the built-in engine has a metric.
func TestServiceMetrics(t *testing.T) {
	fields := map[string]bool{}
	for _, f := range serviceFields {
		fields[f.field] = true
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[engine.ServiceStats]()) {
		assert.True(t, fields[f.Name], f.Name)
		delete(fields, f.Name)
	}
	assert.Empty(t, fields)
}
