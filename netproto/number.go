package netproto

import (
	"encoding/binary"
	"math"
	"time"
)

// appendUvarint appends a number. A negative number is appended as 0.
func appendUvarint(b []byte, v int) []byte { return binary.AppendUvarint(b, uint64(max(v, 0))) }

// appendMillis appends a duration in milliseconds, rounded up: a deadline below one millisecond is still a deadline.
func appendMillis(b []byte, d time.Duration) []byte {
	ms := (max(d, 0) + time.Millisecond - 1) / time.Millisecond
	return binary.AppendUvarint(b, min(uint64(ms), maxMillis))
}

func (p *parser) readMillis(field string) time.Duration {
	return time.Duration(p.readUvarint(field, maxMillis)) * time.Millisecond
}

func appendMicros(b []byte, d time.Duration) []byte {
	return binary.AppendUvarint(b, min(uint64(max(d, 0)/time.Microsecond), maxMillis*1000))
}

func (p *parser) readMicros(field string) time.Duration {
	return time.Duration(p.readUvarint(field, maxMillis*1000)) * time.Microsecond
}

// A log-probability is sent in units of -1/1024 nat: one or two bytes, with an error of half a unit at most.
const (
	logProbUnit = 1024
	maxLogProb  = 1 << 17 // -128 nats is sent for all lower values
)

func appendLogProb(b []byte, l float32) []byte {
	q := math.Round(-float64(l) * logProbUnit)
	if math.IsNaN(q) {
		q = maxLogProb
	}
	return binary.AppendUvarint(b, uint64(min(max(q, 0), maxLogProb)))
}

// appendScore appends a number that is not NaN. -0 becomes 0.
func appendScore(b []byte, f float32) []byte {
	if f == 0 {
		f = 0
	}
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
}

// readScores reads a finite number, and one that is not above it and may be -Inf.
func (p *parser) readScores() (score, stands float32) {
	high, low := p.readUint32("score"), p.readUint32("stands")
	score, stands = math.Float32frombits(high), math.Float32frombits(low)
	const minusZero = 1 << 31
	if high == minusZero || low == minusZero || !(stands <= score) || math.IsInf(float64(score), 0) {
		p.failField("score", ErrValue)
	}
	return score, stands
}

func (p *parser) readLogProb(field string) float32 {
	return 0 - float32(p.readUvarint(field, maxLogProb))/logProbUnit // makes 0 positive
}
