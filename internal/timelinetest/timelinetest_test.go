package timelinetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	process = `{"name":"process_name","ph":"M","ts":0,"pid":1,"tid":0,"args":{"name":"p"}}`
	thread  = `{"name":"thread_name","ph":"M","ts":0,"pid":1,"tid":2,"args":{"name":"t 2"}}`
	outer   = `{"name":"a","ph":"X","ts":1,"dur":10,"pid":1,"tid":2}`
	inner   = `{"name":"b","ph":"X","ts":2.5,"dur":3,"pid":1,"tid":2,"args":{"n":7}}`
	// elsewhere, at the same time as outer
	other     = `{"name":"thread_name","ph":"M","ts":0,"pid":1,"tid":3,"args":{"name":"u"}}`
	elsewhere = `{"name":"a","ph":"X","ts":1,"dur":30,"pid":1,"tid":3}`
)

func arrowPart(phase, ts, id string) string {
	return `{"name":"w","cat":"w","bp":"e","ph":"` + phase + `","ts":` + ts + `,"pid":1,"tid":2,"id":` + id + `}`
}

func file(events ...string) []byte {
	return []byte(`{"displayTimeUnit":"ms","traceEvents":[` + strings.Join(events, ",") + `]}`)
}

// TestRead: a valid file is read, and each fault that viewers reject is found.
func TestRead(t *testing.T) {
	good := []string{process, thread, outer, arrowPart("s", "1.5", "4"), inner, arrowPart("t", "3", "4"),
		`{"name":"c","ph":"X","ts":5.5,"dur":5.5,"pid":1,"tid":2}`, arrowPart("f", "6", "4"),
		`{"name":"m","ph":"i","s":"t","ts":8,"pid":1,"tid":2}`}
	f, err := Read(file(good...))
	require.NoError(t, err)
	all := f.All("X", "p", "t", "")
	require.Len(t, all, 3)
	assert.Equal(t, 18.5, Sum(all))
	assert.Equal(t, 5.5, all[1].End())
	assert.Equal(t, 7.0, all[1].Arg("n"))
	assert.Zero(t, all[0].Arg("n"))
	for want, events := range map[string][]string{
		"no name yet":      {process, outer},
		"event 1, a":       {thread, outer}, // of a process without a name
		"is called":        {process, process},
		"t 2":              {process, thread, thread},
		"metadata":         {`{"name":"x","ph":"M","ts":0,"pid":1,"tid":0}`},
		"no ts":            {`{"name":"x","ph":"X","pid":1,"tid":0}`},
		"after one at 2.5": {process, thread, inner, outer},
		"it is at -1":      {process, thread, `{"name":"x","ph":"X","ts":-1,"dur":2,"pid":1,"tid":2}`},
		"-2 long":          {process, thread, `{"name":"x","ph":"X","ts":1,"dur":-2,"pid":1,"tid":2}`},
		"without length":   {process, thread, `{"name":"x","ph":"X","ts":1,"pid":1,"tid":2}`},
		"phase":            {process, thread, `{"name":"x","ph":"Q","ts":1,"pid":1,"tid":2}`},
		"scope":            {process, thread, `{"name":"x","ph":"i","ts":1,"pid":1,"tid":2}`},
		"ends after it":    {process, thread, outer, `{"name":"x","ph":"X","ts":5,"dur":7,"pid":1,"tid":2}`},
		"one end only":     {process, thread, outer, arrowPart("s", "2", "4")},
		"part 2 of 2 is t": {process, thread, outer, arrowPart("s", "2", "4"), arrowPart("t", "3", "4")},
		"part 1 of 2 is t": {process, thread, outer, arrowPart("t", "2", "4"), arrowPart("f", "3", "4")},
		"part 2 of 3 is f": {process, thread, outer, arrowPart("s", "2", "4"), arrowPart("f", "3", "4"),
			arrowPart("f", "4", "4")},
		"part f of arrow 4": {process, thread, other, outer, elsewhere, arrowPart("s", "2", "4"), // not on its thread
			arrowPart("f", "20", "4")},
		"part s of arrow 4": {process, thread, arrowPart("s", "0.5", "4"), outer, arrowPart("f", "3", "4")},
		"part 2 of 2 is f w": {process, thread, outer, arrowPart("s", "2", "4"),
			strings.Replace(arrowPart("f", "3", "4"), `"cat":"w"`, `"cat":"v"`, 1)},
		"part 2 of 2 is f v": {process, thread, outer, arrowPart("s", "2", "4"),
			strings.Replace(arrowPart("f", "3", "4"), `"name":"w"`, `"name":"v"`, 1)},
		`category "w", bp ""`: {process, thread, outer, strings.Replace(arrowPart("s", "2", "4"), `"bp":"e",`, "", 1)},
		`category "", bp "e"`: {process, thread, outer,
			strings.Replace(arrowPart("s", "2", "4"), `"cat":"w",`, "", 1)},
		"touches no span":      {process, thread, outer, arrowPart("s", "2", "4"), arrowPart("f", "11", "4")},
		"an arrow with id 0":   {process, thread, outer, arrowPart("s", "2", "0")},
		"an id without an arr": {process, thread, `{"name":"x","ph":"X","ts":1,"dur":1,"pid":1,"tid":2,"id":3}`},
		"unknown field":        {`{"nane":"x"}`},
	} {
		_, err := Read(file(events...))
		assert.ErrorContains(t, err, want)
	}
	_, err = Read([]byte(`{"displayTimeUnit":"ns","traceEvents":[]}`))
	assert.ErrorContains(t, err, "displayTimeUnit")
}
