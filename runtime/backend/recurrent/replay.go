package recurrent

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Replay is [backend.DeltaKV].Replay for rows of the stores that of returns.
func Replay[U, C any](rows []backend.Row, of func(backend.Row) *States[U, C]) []backend.Row {
	written := map[*States[U, C]]map[int32]bool{}
	for _, r := range rows {
		s := of(r)
		if written[s] == nil {
			written[s] = map[int32]bool{}
		}
		at := written[s]
		if s.resume(r.See, int(r.Pos), func(slot int32) bool { return at[slot] }) < int(r.Pos) {
			return s.replayRows(r, s.resume(r.See, int(r.Pos), writesNone)) // before any of rows
		}
		at[r.Slot] = true
	}
	return nil
}

func writesNone(int32) bool { return false }

// replayRows returns the rows of the path of r from position n on, without r.
func (s *States[U, C]) replayRows(r backend.Row, n int) []backend.Row {
	rows := make([]backend.Row, 0, int(r.Pos)-n)
	for pos := n; pos < int(r.Pos); pos++ {
		slot := slotAt(r.See, pos)
		if !s.slots[slot].known {
			panic(fmt.Sprintf("recurrent: a row at position %d sees slot %d, which no row has written", r.Pos, slot))
		}
		rows = append(rows, backend.Row{
			Token: s.slots[slot].token, Pos: int32(pos), Slot: slot,
			See: backend.AppendVisible(nil, r.See, 0, pos+1), KV: r.KV,
		})
	}
	return rows
}

// Resume is [backend.DeltaKV].Resume.
func (s *States[U, C]) Resume(see []backend.Span, written func(slot int32) bool) int {
	if written == nil {
		written = writesNone
	}
	return s.resume(see, backend.CountVisible(see), written)
}

// resume returns the largest number of tokens, of the first n of a path, after which a row can be evaluated. written
// are slots with updates to come.
func (s *States[U, C]) resume(see []backend.Span, n int, written func(slot int32) bool) int {
	for first := n / backend.DeltaChunk * backend.DeltaChunk; ; first -= backend.DeltaChunk {
		if s.reaches(see, first, written) {
			until := first
			for until < min(n, first+backend.DeltaChunk) {
				if slot := slotAt(see, until); !s.has(slot) && !written(slot) {
					break
				}
				until++
			}
			return until
		}
	}
}

// has reports whether a slot has an update.
func (s *States[U, C]) has(slot int32) bool { return s.slots[slot].update != nil }

// reaches reports whether the state before a chunk that begins at first is there or can be computed.
func (s *States[U, C]) reaches(see []backend.Span, first int, written func(slot int32) bool) bool {
	for ; first > 0; first -= backend.DeltaChunk {
		if s.slots[slotAt(see, first-1)].checkpoint != nil {
			return true
		}
		for i := first - backend.DeltaChunk; i < first; i++ {
			if slot := slotAt(see, i); !s.has(slot) && !written(slot) {
				return false
			}
		}
	}
	return true
}

// slotAt returns the slot of the token at a position of the path see.
func slotAt(see []backend.Span, pos int) int32 {
	for _, s := range see {
		if n := int(s.To - s.From); pos < n {
			return s.From + int32(pos)
		}
		pos -= int(s.To - s.From)
	}
	panic("recurrent: a position beyond the visible slots")
}
