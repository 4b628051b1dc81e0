package qlog

import (
	"slices"

	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// redacted is a trace without secrets.
type redacted struct{ qlogwriter.Trace }

// AddProducer implements [qlogwriter.Trace].
func (t redacted) AddProducer() qlogwriter.Recorder {
	r := t.Trace.AddProducer()
	if r == nil {
		return nil
	}
	return recorder{r}
}

type recorder struct{ qlogwriter.Recorder }

// RecordEvent implements [qlogwriter.Recorder].
func (r recorder) RecordEvent(e qlogwriter.Event) { r.Recorder.RecordEvent(redact(e)) }

// redact returns an event without tokens. With the token of a stateless reset, anyone who can send packets can end the
// connection; with a token of address validation, others can claim its address.
func redact(e qlogwriter.Event) qlogwriter.Event {
	switch e := e.(type) {
	case qlog.PacketSent:
		e.Header.Token, e.Frames = nil, frames(e.Frames)
		return e
	case qlog.PacketReceived:
		e.Header.Token, e.Frames = nil, frames(e.Frames)
		return e
	case qlog.PacketBuffered:
		e.Header.Token = nil
		return e
	case qlog.PacketDropped:
		e.Header.Token = nil
		return e
	case qlog.PacketLost:
		e.Header.Token = nil
		return e
	case qlog.ParametersSet:
		return parameters(e)
	}
	return e
}

// parameters returns the transport parameters of a connection, without tokens.
func parameters(e qlog.ParametersSet) qlog.ParametersSet {
	e.StatelessResetToken = nil
	if e.PreferredAddress != nil {
		at := *e.PreferredAddress
		clear(at.StatelessResetToken[:])
		e.PreferredAddress = &at
	}
	return e
}

// frames returns the frames of a packet, without tokens. It copies what it changes, since quic-go still uses the
// originals.
func frames(all []qlog.Frame) []qlog.Frame {
	copied := false
	for i := range all {
		clean, ok := frame(all[i])
		if !ok {
			continue
		}
		if !copied {
			all, copied = slices.Clone(all), true
		}
		all[i] = clean
	}
	return all
}

// frame returns a copy of a frame without its token. has is false if the frame has none.
func frame(f qlog.Frame) (clean qlog.Frame, has bool) {
	switch of := f.Frame.(type) {
	case *qlog.NewTokenFrame:
		return qlog.Frame{Frame: &qlog.NewTokenFrame{}}, true
	case *qlog.NewConnectionIDFrame:
		without := *of
		clear(without.StatelessResetToken[:])
		return qlog.Frame{Frame: &without}, true
	}
	return f, false
}
